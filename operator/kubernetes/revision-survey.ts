import type { Clock } from '../telemetry/clock.ts';
import { linkAbort, pause } from './abort.ts';
import { newestDateOf } from './api-dates.ts';
import type { NewestVersion, Revisions } from './catch-up.ts';
import type { Connection } from './connection.ts';
import { followWatch, type WatchProgress } from './list-and-watch.ts';
import { newestVersion } from './newest-version.ts';
import type { NodeLeases } from './node-leases.ts';
import { createRevisionClock } from './revision-clock.ts';
import type { Bracket } from './source.ts';
import { Successions } from './successions.ts';
import { CATCH_UP_MS } from './watch-health.ts';

export interface RevisionSurveyOptions {
  readonly connection: Pick<Connection, 'request' | 'stream'>;
  /** Of collections that are written often. The versions of the first are those that are dated. */
  readonly paths: readonly string[];
  /** Dates what nothing else was written beside. */
  readonly leases?: NodeLeases;
  readonly clock: Clock;
}

/** What was missed arrives at once; milliseconds. */
const QUIET_MS = 300;
const LONGEST_MS = 5_000;
const LOOK_MS = 50;
/** Watches that go on together have asked by then whose versions theirs are. */
const GATHER_MS = 200;
/** While watches catch up the newest version is asked for at most so often. */
const TICK_MS = 500;
/** What arrives is dated in whole seconds. As long as something of late is, nothing has to be asked for. */
const FRESH_MS = 1_100;
/** An answer with the newest version is dated more closely; where nothing arrives the next one is asked for after this. */
const TICKED_MS = 700;

/** One reading of what was missed. */
interface Reading {
  since: string;
  begun: boolean;
}

interface LastReading {
  readonly reading: Reading;
  readonly at: number;
  readonly done: Promise<void>;
}

/**
 * Reads what was missed of some collections once more, before the watches take it in, only for the dates
 * that are in it: so a volume that went is dated by the pods that were written before and after it, and
 * by the Leases of nodes.
 */
export function createRevisionSurvey(options: RevisionSurveyOptions): Revisions {
  return new RevisionSurvey(options);
}

class RevisionSurvey implements Revisions {
  readonly #options: RevisionSurveyOptions;
  readonly #revisions = createRevisionClock();
  /** Of paths beside the first: whether their versions are of its etcd. */
  readonly #ofOneEtcd = new Map<string, boolean>();
  #ticksUntil = Number.NEGATIVE_INFINITY;
  /** Readings under way: while no watch is open yet, nothing that arrives is dated. */
  #readings = 0;
  /** The newest moment since which versions are known to have been given out, as objects say. */
  #datedAt = Number.NEGATIVE_INFINITY;
  /** When the newest version was asked for last. */
  #tickedAt = Number.NEGATIVE_INFINITY;
  #last: LastReading | undefined;

  constructor(options: RevisionSurveyOptions) {
    this.#options = options;
  }

  observe(version: string, when: Partial<Bracket>): void {
    this.#revisions.observe(version, when);
    const { from = this.#datedAt } = when;
    if (from <= this.#options.clock.now()) this.#datedAt = Math.max(this.#datedAt, from);
  }

  bracket(version: string): Bracket {
    return this.#revisions.bracket(version);
  }

  agrees(version: string, heardAt: number): boolean {
    return this.#revisions.agrees(version, heardAt);
  }

  /** Versions of one etcd grow from one answer to the next; those of two do so by accident only. */
  covers(newest: NewestVersion, signal: AbortSignal): Promise<boolean | undefined> {
    const { connection, paths } = this.#options;
    return this.#bounded(signal, async (within) => {
      const [path] = paths;
      if (path === undefined) return undefined;
      const before = await newestVersion(connection, path, within);
      const own = before === undefined ? undefined : await newest(within);
      const after = own === undefined ? undefined : await newestVersion(connection, path, within);
      if (before === undefined || own === undefined || after === undefined) return undefined;
      return before <= own && own <= after;
    });
  }

  async learn(since: string, signal: AbortSignal): Promise<void> {
    const at = this.#options.clock.monotonic();
    if (this.#last !== undefined && at - this.#last.at < LONGEST_MS) {
      const { reading, done } = this.#last;
      const isCovered = isOlder(reading.since, since);
      if (isCovered || !reading.begun) {
        if (!isCovered) reading.since = since;
        await done;
        return;
      }
    }
    const reading = { since, begun: false };
    const done = this.#read(reading, signal);
    this.#last = { reading, at, done };
    await done;
  }

  async #read(reading: Reading, signal: AbortSignal): Promise<void> {
    // Watches go on together, from versions of their own: the oldest of them is read from.
    await pause(this.#options.clock, GATHER_MS, signal);
    reading.begun = true;
    this.#readings += 1;
    void this.#keepTicking(signal);
    const [first, ...others] = this.#options.paths;
    await Promise.all([
      ...(first === undefined ? [] : [this.#readOne(first, reading, signal)]),
      ...others.map((path) => this.#readOther(path, reading, signal)),
      this.#readLeases(reading, signal),
      this.#tick(signal),
    ]);
    this.#readings -= 1;
    void this.#keepTicking(signal);
  }

  /**
   * What is written while watches catch up is bracketed by versions before and after it: by those of dated
   * objects where such arrive, and else, as during a reading, by the newest that a list tells.
   */
  async #keepTicking(signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    const until = clock.monotonic() + CATCH_UP_MS;
    if (this.#ticksUntil > clock.monotonic()) {
      this.#ticksUntil = until;
      return;
    }
    this.#ticksUntil = until;
    while (clock.monotonic() < this.#ticksUntil && (await pause(clock, TICK_MS, signal))) {
      const now = clock.now();
      const isDated = isWithin(now - this.#datedAt, FRESH_MS);
      const isTold = isDated || isWithin(now - this.#tickedAt, TICKED_MS);
      if (this.#readings > 0 || !isTold) await this.#tick(signal);
    }
  }

  async #tick(signal: AbortSignal): Promise<void> {
    const { connection, clock, paths } = this.#options;
    const [path] = paths;
    if (path === undefined) return;
    const askedAt = clock.now();
    const version = await newestVersion(connection, path, signal);
    if (version === undefined) return;
    this.#revisions.observe(String(version), { until: clock.now() });
    this.#revisions.observe(String(version + 1n), { from: askedAt });
    this.#tickedAt = askedAt;
  }

  async #readLeases({ since }: Reading, signal: AbortSignal): Promise<void> {
    await this.#bounded(signal, async (within) => {
      await this.#options.leases?.read(since, this, within);
    });
  }

  async #readOther(path: string, reading: Reading, signal: AbortSignal): Promise<void> {
    const { connection } = this.#options;
    const newest: NewestVersion = (within) => newestVersion(connection, path, within);
    const isCovered = this.#ofOneEtcd.get(path) ?? (await this.covers(newest, signal));
    if (isCovered !== undefined) this.#ofOneEtcd.set(path, isCovered);
    if (isCovered === true) await this.#readOne(path, reading, signal);
  }

  async #readOne(path: string, { since }: Reading, signal: AbortSignal): Promise<void> {
    const { connection, clock } = this.#options;
    const link = linkAbort(signal);
    const begun = clock.now();
    const successions = new Successions();
    let heardAt = clock.monotonic();
    const take = (event: WatchProgress): void => {
      heardAt = clock.monotonic();
      if (event.kind === 'bookmark') return;
      const from = newestDateOf(event.object);
      if (from !== undefined) this.observe(event.identity.resourceVersion, { from });
      const stored = successions.follow(event);
      if (stored !== undefined) this.observe(stored.version, { until: stored.until });
      if (from !== undefined && from >= begun) link.abort();
    };
    const following = followWatch({
      connection,
      path,
      query: { resourceVersion: since, timeoutSeconds: LONGEST_MS / 1000 },
      signal: link.signal,
      clock,
      inactivityMs: LONGEST_MS,
      onOpen: () => {
        heardAt = clock.monotonic();
      },
      onEvent: take,
      onGarbage: () => undefined,
    });
    const ended = following.then(() => link.abort());
    const startedAt = clock.monotonic();
    while (!link.signal.aborted) {
      await pause(clock, LOOK_MS, link.signal);
      const now = clock.monotonic();
      if (now - heardAt > QUIET_MS && now - startedAt > 2 * QUIET_MS) link.abort();
      if (now - startedAt > LONGEST_MS) link.abort();
    }
    await ended;
    link.release();
  }

  /** Nobody waits longer than a few seconds for any of it. */
  async #bounded<T>(signal: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const link = linkAbort(signal);
    void pause(this.#options.clock, LONGEST_MS, link.signal).then(link.abort);
    try {
      return await work(link.signal);
    } finally {
      link.abort();
      link.release();
    }
  }
}

/** False for what lies ahead of the clock, too. */
function isWithin(age: number, ms: number): boolean {
  return age >= 0 && age < ms;
}

/** Decimal numbers of one etcd; what is none is not read from. */
function isOlder(a: string, b: string): boolean {
  return a.length === b.length ? a <= b : a.length < b.length;
}
