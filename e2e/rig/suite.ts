import { setTimeout as delay } from 'node:timers/promises';
import { createRandom } from '../faults/random.ts';
import { type Account, accountFor, NOTHING_WRONG } from './account.ts';
import { type Accident, accidentOf } from './accidents.ts';
import { Scene, WINDOW_MS } from './scene.ts';
import { startWorld, type World } from './world.ts';

export interface RigRun extends Account {
  readonly seed: number;
  readonly accident: string;
  readonly seconds: number;
  /** Windows that were accounted for. */
  readonly windows: number;
}

/** For a window to be received after everything is there again: a Lease lasts 15 s, a restart takes its time on a busy machine. */
const PATIENCE_MS = 150_000;
/** Windows after those that are accounted for, in which late facts are settled. */
const SETTLING_MS = 2 * WINDOW_MS;
/** A pod that is no older may have no sample without a gap; metrics-server leaves it out at first (docs/explanation/metering.md#cpu-and-memory). */
const YOUNG_MS = 60_000;
/** The first window that a process bills is the first whole one after it leads, and it may see the cluster a window later. */
const BEGINNING_MS = 2 * WINDOW_MS;

/** Runs accidents one after the other, each on a database of its own. */
export class RigSuite {
  readonly #world: World;

  private constructor(world: World) {
    this.#world = world;
  }

  static async start(log: (line: string) => void): Promise<RigSuite> {
    return new RigSuite(await startWorld(log));
  }

  /** A run that cannot be accounted for counts as unreported for as long as it took. */
  async run(seed: number): Promise<RigRun> {
    const startedAt = performance.now();
    const accident = accidentOf(seed);
    const scene = await Scene.start(this.#world, { pooled: accident.pooled === true });
    const elapsed = (): number => (performance.now() - startedAt) / 1_000;
    try {
      const { account, windows } = await this.#live(scene, accident, seed);
      return { ...account, seed, accident: accident.name, seconds: elapsed(), windows };
    } catch (error) {
      const figures = { ...NOTHING_WRONG, unreported: Math.round(elapsed()) };
      const wrong = [`it cannot be accounted for: ${String(error)}`];
      return { figures, wrong, seed, accident: accident.name, seconds: elapsed(), windows: 0 };
    } finally {
      await scene.end();
      const { trio } = this.#world;
      await trio.complete();
      // An accident that broke off may have left it astray.
      trio.proxy.lead(trio.primary().port);
      trio.proxy.restore();
    }
  }

  async close(): Promise<void> {
    await this.#world.close();
  }

  async #live(
    scene: Scene,
    accident: Accident,
    seed: number,
  ): Promise<{ readonly account: Account; readonly windows: number }> {
    const late: string[] = [];
    await scene.leader();
    if (accident.early !== true) await this.#settled(scene);
    const before = accident.early === true ? undefined : await firstWindow(scene);
    await accident.happen(scene, createRandom(seed));
    // What had not begun before the accident has to begin soon after it.
    const from = before ?? nextWindow(await leadingSince(scene)) + BEGINNING_MS;
    const to = Math.max(nextWindow(Date.now()) + WINDOW_MS, from + 2 * WINDOW_MS);
    if (!(await scene.windowArrives(to + SETTLING_MS, PATIENCE_MS))) {
      late.push(`no window is received within ${PATIENCE_MS / 1_000} s after the accident`);
    }
    // A backfill may be under way, and so may deliveries.
    await this.#allReceived(scene);
    const account = accountFor({
      stretch: { from, to },
      windowMs: WINDOW_MS,
      sampledFrom: this.#world.bornAt + YOUNG_MS,
      ended: this.#world.ended(),
      ledger: await scene.ledger(),
      gaps: await scene.gaps(from),
      recorded: this.#world.recorder.recorded(),
      terms: scene.leaders.terms(),
    });
    return {
      account: { figures: account.figures, wrong: [...late, ...account.wrong] },
      windows: (to - from) / WINDOW_MS,
    };
  }

  /** Two windows are billed and received. */
  async #settled(scene: Scene): Promise<void> {
    const arrives = await scene.windowArrives(Date.now() + WINDOW_MS, PATIENCE_MS);
    if (!arrives) throw new Error('rig: no window is billed before any accident');
  }

  /** Waits until the receiver has all that the ledger has, for as long as it takes deliveries to be repeated. */
  async #allReceived(scene: Scene): Promise<void> {
    const deadline = performance.now() + PATIENCE_MS;
    while (performance.now() < deadline) {
      const events = await scene.ledger();
      const { usage } = this.#world.recorder.recorded();
      if (events.every(({ id }) => usage.has(id))) return;
      await delay(WINDOW_MS / 10);
    }
  }
}

/** Start of the first window of the ledger, milliseconds since the epoch. */
async function firstWindow(scene: Scene): Promise<number> {
  const events = await scene.ledger();
  if (events.length === 0) throw new Error('rig: the ledger has no event');
  return Math.min(...events.map(({ window_start: start }) => Date.parse(start)));
}

/** When the process that leads was first seen to lead. */
async function leadingSince(scene: Scene): Promise<number> {
  const { pid } = await scene.leader();
  const term = scene.leaders.terms().findLast((each) => each.pid === pid);
  return term?.from ?? Date.now();
}

/** The first boundary of windows after a moment. */
function nextWindow(at: number): number {
  return Math.ceil(at / WINDOW_MS) * WINDOW_MS;
}
