import { setTimeout as delay } from 'node:timers/promises';
import type { Random } from '../faults/random.ts';
import type { RigPod } from './pod.ts';
import { isBouncerInstalled } from './bouncer.ts';
import {
  readOnly,
  statementTimeouts,
  terminateSessions,
  uncommitted,
} from './database-accidents.ts';
import { type Scene, WINDOW_MS } from './scene.ts';

/** Something that happens to two processes of the program, or around them. Afterwards everything is there and can be reached. */
export interface Accident {
  readonly name: string;
  /** Begins as soon as a process leads; the others when a window has been billed and both processes run. */
  readonly early?: true;
  /** PgBouncer stands before the database. */
  readonly pooled?: true;
  happen(scene: Scene, random: Random): Promise<void>;
}

const SECOND = 1_000;

/** For how long a database is away by the shipped defaults' worst case, and in a run that need not take so long. */
const LONG_AWAY_MS = 300 * SECOND;
const AWAY_MS = 6 * WINDOW_MS;

const ALL: readonly Accident[] = [
  {
    name: 'leader killed',
    async happen(scene, random) {
      await anyMoment(random);
      (await scene.leader()).kill();
    },
  },
  {
    name: 'leader killed before its first window',
    early: true,
    async happen(scene, random) {
      const first = await scene.leader();
      await delay(random.between(0, WINDOW_MS / 2));
      const { pid } = first;
      first.kill();
      await nextLeader(scene, pid);
    },
  },
  {
    name: 'leader killed twice, the second before its first window',
    async happen(scene, random) {
      const first = await scene.leader();
      const { pid } = first;
      first.kill();
      const second = await nextLeader(scene, pid);
      await delay(random.between(0, 2 * SECOND));
      second.kill();
    },
  },
  {
    name: 'leader killed in a backfill',
    async happen(scene, random) {
      const pids = scene.pods.map(({ pid }) => pid);
      // Neither can work, so that windows are missed.
      for (const pod of scene.pods) pod.apiServer.swallow('everything');
      for (const pod of scene.pods) pod.kill();
      await delay(random.between(3, 6) * WINDOW_MS);
      for (const pod of scene.pods) pod.apiServer.restore();
      const leader = await nextLeader(scene, ...pids);
      await delay(random.between(0, 3 * SECOND));
      leader.kill();
    },
  },
  {
    name: 'both killed',
    async happen(scene, random) {
      await anyMoment(random);
      for (const pod of scene.pods) pod.kill();
    },
  },
  ...[4, 15, 60].map((seconds) => ({
    name: `leader frozen for ${seconds} s`,
    async happen(scene: Scene, random: Random) {
      await anyMoment(random);
      const leader = await scene.leader();
      leader.freeze();
      await delay(seconds * SECOND);
      leader.thaw();
    },
  })),
  {
    name: 'leader frozen while it sends',
    async happen(scene, random) {
      const leader = await scene.leader();
      const sent = scene.world.recorder.recorded().requests.length;
      await eventually(scene, () => scene.world.recorder.recorded().requests.length > sent);
      leader.freeze();
      await delay(random.between(15, 30) * SECOND);
      leader.thaw();
    },
  },
  {
    name: 'leader cut from the database',
    happen: (scene, random) => cutOff(scene, random, 'leader', 'database'),
  },
  {
    name: 'standby cut from the database',
    happen: (scene, random) => cutOff(scene, random, 'standby', 'database'),
  },
  {
    name: 'leader cut from the API server',
    happen: (scene, random) => cutOff(scene, random, 'leader', 'apiServer'),
  },
  {
    name: 'standby cut from the API server',
    happen: (scene, random) => cutOff(scene, random, 'standby', 'apiServer'),
  },
  {
    name: 'database away from both',
    happen: (scene, random) => databaseAway(scene, random, AWAY_MS),
  },
  {
    name: 'database away from both for 5 min',
    happen: (scene, random) => databaseAway(scene, random, LONG_AWAY_MS),
  },
  {
    name: 'database away from both, leader killed meanwhile',
    async happen(scene, random) {
      // Halfway it has released the Lease, and nobody leads.
      const leader = await scene.leader();
      await databaseAway(scene, random, AWAY_MS, () => leader.kill());
    },
  },
  {
    name: 'primary killed, standby promoted',
    async happen(scene, random) {
      const { trio } = scene.world;
      await anyMoment(random);
      trio.kill();
      await delay(random.between(0, 5 * SECOND));
      await trio.promote();
      await trio.complete();
    },
  },
  {
    name: 'primary killed and leader killed',
    async happen(scene, random) {
      const { trio } = scene.world;
      await anyMoment(random);
      trio.kill();
      (await scene.leader()).kill();
      await trio.promote();
      await trio.complete();
    },
  },
  {
    name: 'sessions terminated at random',
    happen: terminateSessions,
  },
  {
    name: 'leader killed in the middle of a batch',
    happen: (scene) => uncommitted(scene, async () => (await scene.leader()).kill()),
  },
  {
    name: 'primary killed in the middle of a batch',
    happen: (scene) =>
      uncommitted(scene, async () => {
        scene.world.trio.kill();
        await scene.world.trio.promote();
        await scene.world.trio.complete();
      }),
  },
  {
    name: 'statement timeouts',
    happen: statementTimeouts,
  },
  {
    name: 'database read-only',
    happen: readOnly,
  },
  {
    name: 'both updated one after the other',
    async happen(scene, random) {
      await anyMoment(random);
      const first = await scene.leader();
      await first.restart();
      await scene.leader();
      await scene.windowArrives(Date.now(), 3 * WINDOW_MS);
      await scene.standby(first).restart();
    },
  },
  {
    name: 'PgBouncer between, leader killed',
    pooled: true,
    async happen(scene, random) {
      await anyMoment(random);
      (await scene.leader()).kill();
    },
  },
  {
    name: 'PgBouncer between, killed and started again',
    pooled: true,
    async happen(scene, random) {
      await anyMoment(random);
      await scene.bouncer?.restart();
    },
  },
  {
    name: 'leader killed while the standby starts',
    async happen(scene, random) {
      const leader = await scene.leader();
      const standby = scene.standby(leader);
      const { pid } = standby;
      standby.kill();
      await eventually(scene, () => standby.pid !== undefined && standby.pid !== pid);
      await delay(random.between(0, 5 * SECOND));
      leader.kill();
    },
  },
  {
    name: 'leader killed again and again',
    async happen(scene, random) {
      const former: (number | undefined)[] = [];
      for (let kills = 6; kills > 0; kills -= 1) {
        const leader = await nextLeader(scene, ...former);
        former.push(leader.pid);
        await delay(random.between(0, WINDOW_MS));
        leader.kill();
      }
    },
  },
  {
    name: 'standby cut from the API server, leader killed',
    async happen(scene, random) {
      const leader = await scene.leader();
      const { apiServer } = scene.standby(leader);
      apiServer.swallow('everything');
      await delay(random.between(20, 60) * SECOND);
      leader.kill();
      await delay(random.between(0, 2 * SECOND));
      apiServer.restore();
    },
  },
  {
    name: 'both cut from the API server',
    async happen(scene, random) {
      for (const { apiServer } of scene.pods) apiServer.swallow('everything');
      await delay(random.between(20, 60) * SECOND);
      for (const { apiServer } of scene.pods) apiServer.restore();
    },
  },
];

/** Those that can happen on this machine. */
export const ACCIDENTS: readonly Accident[] = ALL.filter(
  ({ pooled }) => pooled !== true || isBouncerInstalled(),
);

/** The accident of a seed: so many seeds as there are accidents have each of them once. */
export function accidentOf(seed: number): Accident {
  const accident = ACCIDENTS[seed % ACCIDENTS.length];
  if (accident === undefined) throw new RangeError(`rig: no accident: "${seed}"`);
  return accident;
}

/** At any moment of a window. */
function anyMoment(random: Random): Promise<void> {
  return delay(random.between(0, WINDOW_MS));
}

/** The process that leads next and is none of these. */
async function nextLeader(
  scene: Scene,
  ...former: readonly (number | undefined)[]
): Promise<RigPod> {
  const next = (): RigPod | undefined => {
    const leader = scene.leaders.leader();
    return leader === undefined || former.includes(leader.pid) ? undefined : leader;
  };
  await eventually(scene, () => next() !== undefined);
  return next() ?? scene.leader();
}

/** Waits until something holds, for as long as a take-over and a window may take. */
async function eventually(scene: Scene, holds: () => boolean): Promise<void> {
  const deadline = performance.now() + 90 * SECOND;
  while (!holds()) {
    if (performance.now() > deadline) throw new Error(`rig: nothing happens in ${scene.database}`);
    await delay(20);
  }
}

/** Everything that one of the processes sends to a server, or gets from it, is swallowed for a while. */
async function cutOff(
  scene: Scene,
  random: Random,
  who: 'leader' | 'standby',
  from: 'database' | 'apiServer',
): Promise<void> {
  await anyMoment(random);
  const leader = await scene.leader();
  const pod = who === 'leader' ? leader : scene.standby(leader);
  pod[from].swallow('everything');
  await delay(random.between(20, 60) * SECOND);
  pod[from].restore();
}

/** No process reaches the database: connections are refused, or stay silent. */
async function databaseAway(
  scene: Scene,
  random: Random,
  awayMs: number,
  meanwhile: () => void = () => undefined,
): Promise<void> {
  const { trio } = scene.world;
  await anyMoment(random);
  if (random.chance(0.5)) trio.proxy.swallow('everything');
  else {
    trio.proxy.lead(NO_PORT);
    trio.proxy.cut();
  }
  await delay(awayMs / 2);
  meanwhile();
  await delay(awayMs / 2);
  trio.proxy.lead(trio.primary().port);
  trio.proxy.restore();
}

/** Nobody listens there. */
const NO_PORT = 1;
