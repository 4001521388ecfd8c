import type { LedgerDatabase } from '../../../operator/settings/settings.ts';
import { startTrio, type Trio } from '../../postgres/trio.ts';
import { createRandom } from '../random.ts';
import type { RunReport } from '../run-plan.ts';
import { type Accident, ACCIDENTS } from './accidents.ts';
import { checkStream } from './check.ts';
import { mountSmallDisk, type SmallDisk } from './small-disk.ts';
import { startWriter } from './writer-process.ts';

export interface PostgresRun extends RunReport {
  readonly seed: number;
  /** The accident that it is about. */
  readonly scenario: string;
  readonly seconds: number;
}

export interface PostgresSuiteOptions {
  /** `local` acknowledges without a standby: to see that what is lost is missed. */
  readonly commit: 'standby' | 'local';
  /** Everybody has a prepaid balance, which is held against the stream. */
  readonly budgets?: boolean;
}

/** Servers that accidents happen to one after the other, each to a stream of its own. */
export interface PostgresSuite {
  run(seed: number): Promise<PostgresRun>;
  close(): Promise<void>;
}

interface Stage {
  readonly trio: Trio;
  readonly database: LedgerDatabase;
  readonly disk: SmallDisk | undefined;
}

/** Room for the log is there from the beginning, so that tables are what finds the disk full. */
const SMALL_DISK_SETTINGS = ['min_wal_size = 96MB', 'max_wal_size = 128MB', 'wal_keep_size = 32MB'];

/** The accidents that can happen: those in a wait need one, and a small disk somebody who may mount it. */
export function accidentsOf({ commit }: PostgresSuiteOptions): readonly Accident[] {
  return ACCIDENTS.filter(({ waits, smallDisk }) => {
    if (commit === 'local') return waits !== true && smallDisk !== true;
    return smallDisk !== true || process.getuid?.() === 0;
  });
}

/** The accident of a seed. */
export function accidentOf(seed: number, options: PostgresSuiteOptions): Accident {
  const accidents = accidentsOf(options);
  const accident = accidents[seed % accidents.length];
  if (accident === undefined) throw new RangeError('faults: no accident');
  return accident;
}

export function startPostgresSuite(options: PostgresSuiteOptions): PostgresSuite {
  return new Suite(options);
}

class Suite implements PostgresSuite {
  readonly #options: PostgresSuiteOptions;
  /** By whether it is on a small disk. */
  readonly #stages = new Map<boolean, Promise<Stage>>();
  #runs = 0;

  constructor(options: PostgresSuiteOptions) {
    this.#options = options;
  }

  async run(seed: number): Promise<PostgresRun> {
    const startedAt = performance.now();
    const accident = accidentOf(seed, this.#options);
    const stage = await this.#stage(accident.smallDisk === true);
    const { trio, database, disk } = stage;
    const random = createRandom(seed);
    this.#runs += 1;
    const stream = `run-${seed}-${this.#runs}`;
    const durability = this.#options.commit === 'local' ? 'storage' : 'standby';
    const { budgets = false } = this.#options;
    const writer = startWriter(database, { stream, durability, budgets });
    try {
      await writer.more(random.between(3, 40));
      await accident.happen({ trio, random, disk, writer });
      await writer.more(random.between(3, 20));
    } finally {
      await writer.end();
      await trio.complete();
    }
    const checked = await checkStream(database, { stream, budgets }, writer);
    const stopped = writer.stopped();
    const wrong = [...checked.wrong];
    // Nothing was lost, so there was nothing to stop for.
    if (stopped !== undefined && checked.lost === 0) wrong.push(`the writer stopped: ${stopped}`);
    return {
      ...checked,
      wrong,
      seed,
      scenario: accident.name,
      repeats: writer.repeats(),
      ends: [stopped ?? 'completed'],
      seconds: (performance.now() - startedAt) / 1_000,
    };
  }

  async close(): Promise<void> {
    for (const started of this.#stages.values()) {
      const { trio, disk } = await started;
      await trio.close();
      disk?.remove();
    }
  }

  #stage(onSmallDisk: boolean): Promise<Stage> {
    const started = this.#stages.get(onSmallDisk) ?? this.#start(onSmallDisk);
    this.#stages.set(onSmallDisk, started);
    return started;
  }

  async #start(onSmallDisk: boolean): Promise<Stage> {
    const disk = onSmallDisk ? mountSmallDisk() : undefined;
    if (onSmallDisk && disk === undefined) throw new Error('disk full: tmpfs cannot be mounted');
    const trio = await startTrio({
      standbys: this.#options.commit === 'local' ? '' : 'ANY 1 (*)',
      settings: onSmallDisk ? SMALL_DISK_SETTINGS : [],
      ...(disk !== undefined && { parent: disk.path }),
    });
    return { trio, disk, database: await trio.createDatabase() };
  }
}
