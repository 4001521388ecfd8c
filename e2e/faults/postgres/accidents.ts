import { setTimeout as delay } from 'node:timers/promises';
import { signalAll } from '../../postgres/signals.ts';
import type { Trio } from '../../postgres/trio.ts';
import type { Random } from '../random.ts';
import type { SmallDisk } from './small-disk.ts';
import type { StreamWriter } from './writer-process.ts';

/** Where an accident happens. */
export interface Scene {
  readonly trio: Trio;
  readonly random: Random;
  /** What the first primary is on, where that is to be filled. */
  readonly disk: SmallDisk | undefined;
  readonly writer: Pick<StreamWriter, 'foundFull'>;
}

/** Something that happens to the servers while a stream is being written. In the end there is a primary that can be reached. */
export interface Accident {
  readonly name: string;
  /** Only where commits wait for a standby. */
  readonly waits?: true;
  /** On a disk of its own that is small. */
  readonly smallDisk?: true;
  happen(scene: Scene): Promise<void>;
}

const PATIENCE_MS = 10_000;

export const ACCIDENTS: readonly Accident[] = [
  {
    name: 'kill, promotion',
    async happen({ trio, random }) {
      trio.kill();
      await delay(random.between(0, 300));
      await trio.promote();
    },
  },
  {
    name: 'standbys cut off, kill, promotion',
    async happen({ trio, random }) {
      await trio.isolate();
      await delay(random.between(500, 2_000));
      trio.kill();
      await trio.promote();
    },
  },
  {
    // Nobody may promote a standby before the old primary has none any more: what it goes on confirming would be lost.
    name: 'standbys cut off, promotion while the primary lives',
    async happen({ trio, random }) {
      await trio.isolate();
      await delay(random.between(0, 1_000));
      await trio.promote();
    },
  },
  {
    name: 'primary frozen',
    async happen({ trio, random }) {
      const primary = trio.primary();
      signalAll(primary, 'SIGSTOP');
      await delay(random.between(500, 4_000));
      signalAll(primary, 'SIGCONT');
    },
  },
  {
    name: 'primary frozen, promotion, thaw',
    async happen({ trio, random }) {
      const primary = trio.primary();
      signalAll(primary, 'SIGSTOP');
      await delay(random.between(0, 2_000));
      await trio.promote();
      await delay(random.between(0, 1_000));
      // It thinks that it is the primary still, and has no standby any more.
      signalAll(primary, 'SIGCONT');
      await delay(random.between(0, 500));
    },
  },
  {
    name: 'answers swallowed',
    happen: (scene) => swallowed(scene, 'answers'),
  },
  {
    name: 'everything swallowed',
    happen: (scene) => swallowed(scene, 'everything'),
  },
  {
    name: 'answers swallowed, kill, promotion',
    async happen({ trio, random }) {
      trio.proxy.swallow('answers');
      await delay(random.between(0, 1_000));
      trio.kill();
      await trio.promote();
      trio.proxy.restore();
    },
  },
  {
    name: 'connections cut',
    async happen({ trio, random }) {
      for (let count = random.between(1, 10); count > 0; count--) {
        trio.proxy.cut();
        await delay(random.between(0, 100));
      }
    },
  },
  {
    name: 'commit cancelled while it waits',
    waits: true,
    async happen(scene) {
      await inWait(scene, 'pg_cancel_backend');
      await scene.trio.attach();
    },
  },
  {
    name: 'commit terminated while it waits',
    waits: true,
    async happen(scene) {
      await inWait(scene, 'pg_terminate_backend');
      await scene.trio.attach();
    },
  },
  {
    name: 'commit cancelled while it waits, kill, promotion',
    waits: true,
    async happen(scene) {
      await inWait(scene, 'pg_cancel_backend');
      scene.trio.kill();
      await scene.trio.promote();
    },
  },
  {
    name: 'commit terminated while it waits, kill, promotion',
    waits: true,
    async happen(scene) {
      await inWait(scene, 'pg_terminate_backend');
      scene.trio.kill();
      await scene.trio.promote();
    },
  },
  {
    name: 'disk full',
    smallDisk: true,
    async happen({ trio, random, disk, writer }) {
      if (disk === undefined) throw new Error('disk full: no small disk');
      // A new file of the log, which is as large as it will be: a server without room for its log ends itself.
      await trio.primary().query('select pg_switch_wal()');
      await trio.primary().query('checkpoint');
      disk.fill();
      try {
        const until = performance.now() + PATIENCE_MS;
        while (!writer.foundFull()) {
          if (performance.now() > until) throw new Error('disk full: the writer found room');
          await delay(10);
        }
        await delay(random.between(0, 2_000));
      } finally {
        disk.empty();
      }
    },
  },
];

async function swallowed({ trio, random }: Scene, what: 'answers' | 'everything'): Promise<void> {
  trio.proxy.swallow(what);
  await delay(random.between(200, 4_000));
  trio.proxy.restore();
}

/** Cuts the standbys off, and cancels or ends whatever commit waits for them, once or several times. */
async function inWait(
  { trio, random }: Scene,
  end: 'pg_cancel_backend' | 'pg_terminate_backend',
): Promise<void> {
  await trio.isolate();
  for (let count = random.between(1, 3); count > 0; count--) {
    await trio.primary().query(`select ${end}(${await waiting(trio)})`);
    await delay(random.between(0, 300));
  }
}

/** A process of the server in which the writer waits for a standby. */
async function waiting(trio: Trio): Promise<number> {
  const deadline = performance.now() + PATIENCE_MS;
  for (;;) {
    const [row] = await trio
      .primary()
      .query(
        "select pid from pg_stat_activity where wait_event = 'SyncRep' and application_name = 'meterfeed'",
      );
    if (row !== undefined) return Number(row['pid']);
    if (performance.now() > deadline) throw new Error('no commit waits for a standby');
    await delay(10);
  }
}
