import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { TEST_USER } from '../../operator/ledger/testing/postgres-server.ts';
import { parseEvents, type ReceivedEvent } from '../long/received.ts';
import { type Bouncer, startBouncer } from './bouncer.ts';
import type { ReportedGap } from './gaps.ts';
import { LeaderLog } from './leader-log.ts';
import { RigPod } from './pod.ts';
import { POD_NAMES, type World } from './world.ts';

/** The shortest that COLLECTION_INTERVAL takes. */
export const WINDOW_MS = 10_000;
const POLL_MS = 200;
/** For a process to lead after whatever happened: a Lease lasts 15 s, and a busy machine starts a process in 10 s. */
const LEAD_PATIENCE_MS = 90_000;

/** Two processes of the program on a new, empty database, and the world around them. */
export class Scene {
  readonly world: World;
  readonly pods: readonly RigPod[];
  readonly leaders: LeaderLog;
  readonly bouncer: Bouncer | undefined;
  /** Name of the database. */
  readonly database: string;

  private constructor(
    world: World,
    database: string,
    bouncer: Bouncer | undefined,
    pods: readonly RigPod[],
  ) {
    this.world = world;
    this.database = database;
    this.bouncer = bouncer;
    this.pods = pods;
    this.leaders = new LeaderLog(pods);
  }

  static async start(world: World, options: { readonly pooled: boolean }): Promise<Scene> {
    const database = await world.createDatabase();
    const { trio, plane, directory, recorder } = world;
    const bouncer = options.pooled
      ? await startBouncer(join(directory, database), trio.proxy.port)
      : undefined;
    const pods: RigPod[] = [];
    recorder.begin(() => pods.flatMap(({ pid }) => pid ?? []));
    for (const name of POD_NAMES) {
      pods.push(
        await RigPod.start({
          name,
          directory: join(directory, database, name),
          kubeconfig: plane.kubeconfig,
          databasePort: bouncer?.port ?? trio.proxy.port,
          ledgerUrl: (port) =>
            `postgresql://${TEST_USER}@127.0.0.1:${port}/${database}?sslmode=disable`,
          env: {
            CLUSTER_NAME: 'local',
            REGION: 'local',
            PLATFORM_CLUSTER: 'local',
            COLLECTION_INTERVAL: `${WINDOW_MS / 1000}s`,
          },
        }),
      );
    }
    return new Scene(world, database, bouncer, pods);
  }

  /** The process that leads, waiting for one if need be. Throws when none does in time. */
  async leader(): Promise<RigPod> {
    const deadline = performance.now() + LEAD_PATIENCE_MS;
    for (;;) {
      const leader = this.leaders.leader();
      if (leader !== undefined) return leader;
      if (performance.now() > deadline) throw new Error('rig: no process leads');
      await delay(POLL_MS);
    }
  }

  standby(leader: RigPod): RigPod {
    const other = this.pods.find((pod) => pod !== leader);
    if (other === undefined) throw new Error('rig: there is no other process');
    return other;
  }

  /** The newest end of a window of which the receiver has an event; 0 before the first. */
  lastReceived(): number {
    let last = 0;
    for (const contents of this.world.recorder.recorded().usage.values()) {
      const [content = '{}'] = contents;
      const { window_end: end } = JSON.parse(content) as Partial<ReceivedEvent>;
      last = Math.max(last, Date.parse(end ?? ''));
    }
    return last;
  }

  /** Waits until a window is received that ends at a moment or later; false when none is in time. */
  async windowArrives(end: number, patienceMs: number): Promise<boolean> {
    const deadline = performance.now() + patienceMs;
    while (this.lastReceived() < end) {
      if (performance.now() > deadline) return false;
      await delay(POLL_MS);
    }
    return true;
  }

  /** All events of the ledger, from the process that leads. */
  async ledger(): Promise<readonly ReceivedEvent[]> {
    return parseEvents(await this.#read(`/api/v1/events?format=ndjson&${range(0)}`));
  }

  /** What GET /api/v1/gaps reports of all since a moment. */
  async gaps(from: number): Promise<readonly ReportedGap[]> {
    const answer: unknown = JSON.parse(await this.#read(`/api/v1/gaps?${range(from)}`));
    const { open, ended } = answer as {
      readonly open: readonly ReportedGap[];
      readonly ended: readonly ReportedGap[];
    };
    return [...open, ...ended];
  }

  async end(): Promise<void> {
    await this.leaders.stop();
    await Promise.all(this.pods.map((pod) => pod.end()));
    await this.bouncer?.stop();
  }

  async #read(path: string): Promise<string> {
    const { address } = await this.leader();
    const answer = await fetch(`${address}${path}`, { signal: AbortSignal.timeout(30_000) });
    const text = await answer.text();
    if (answer.status === 200) return text;
    throw new Error(`rig: GET ${path}: HTTP ${answer.status}: ${text.slice(0, 200)}`);
  }
}

function range(from: number): string {
  const end = new Date(Date.now() + 60_000).toISOString();
  return `from=${new Date(from).toISOString()}&to=${end}`;
}
