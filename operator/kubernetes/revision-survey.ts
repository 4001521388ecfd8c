import type { Clock } from '../telemetry/clock.ts';
import { linkAbort, pause } from './abort.ts';
import type { Revisions } from './catch-up.ts';
import type { Connection } from './connection.ts';
import { followWatch, type WatchProgress } from './list-and-watch.ts';
import type { NodeLeases } from './node-leases.ts';
import { createRevisionClock, datesOf, versionOf } from './revision-clock.ts';
import { CATCH_UP_MS } from './watch-health.ts';

export interface RevisionSurveyOptions {
  readonly connection: Pick<Connection, 'request' | 'stream'>;
  /** Of collections that are written often, all in one etcd. */
  readonly paths: readonly string[];
  /** Dates what nothing else was written beside. */
  readonly leases?: NodeLeases;
  readonly clock: Clock;
}

/** What was missed arrives at once; milliseconds. */
const QUIET_MS = 300;
const LONGEST_MS = 5_000;
const LOOK_MS = 50;
/** While watches catch up the newest version is asked for so often. */
const TICK_MS = 500;

/** One reading of what was missed. */
interface Reading {
  since: string;
  begun: boolean;
}

/**
 * Reads what was missed of some collections once more, before the watches take it in, only for the dates
 * that are in it: so a volume that went is dated by the pods that were written before and after it, and
 * by the Leases of nodes.
 */
export function createRevisionSurvey(options: RevisionSurveyOptions): Revisions {
  const revisions = createRevisionClock();
  const { clock } = options;
  let ticksUntil = Number.NEGATIVE_INFINITY;
  let last:
    | { readonly reading: Reading; readonly at: number; readonly done: Promise<void> }
    | undefined;

  const read = async (reading: Reading, signal: AbortSignal): Promise<void> => {
    // Watches go on together, from versions of their own: the oldest of them is read from.
    await pause(clock, LOOK_MS, signal);
    reading.begun = true;
    await Promise.all([
      ...options.paths.map((path) => readOne(options, path, reading, signal)),
      readLeases(reading, signal),
      tick(signal),
    ]);
    void keepTicking(signal);
  };

  /** What is written while watches catch up is bracketed by the versions that were the newest before and after. */
  async function keepTicking(signal: AbortSignal): Promise<void> {
    const until = clock.monotonic() + CATCH_UP_MS;
    if (ticksUntil > clock.monotonic()) {
      ticksUntil = until;
      return;
    }
    ticksUntil = until;
    while (clock.monotonic() < ticksUntil && (await pause(clock, TICK_MS, signal))) {
      await tick(signal);
    }
  }

  async function tick(signal: AbortSignal): Promise<void> {
    const [path] = options.paths;
    if (path === undefined) return;
    const askedAt = clock.now();
    const query = { limit: 1 };
    const outcome = await options.connection.request(path, {
      query,
      signal,
      timeoutMs: LONGEST_MS,
    });
    const version = outcome.kind === 'ok' ? versionOf(outcome.body) : undefined;
    if (version === undefined) return;
    revisions.observe(String(version), { until: clock.now() });
    revisions.observe(String(version + 1n), { from: askedAt });
  }

  async function readLeases({ since }: Reading, signal: AbortSignal): Promise<void> {
    const link = linkAbort(signal);
    void pause(clock, LONGEST_MS, link.signal).then(link.abort);
    await options.leases?.read(since, revisions, link.signal);
    link.abort();
    link.release();
  }

  async function readOne(
    { connection }: RevisionSurveyOptions,
    path: string,
    { since }: Reading,
    signal: AbortSignal,
  ): Promise<void> {
    const link = linkAbort(signal);
    const begun = clock.now();
    let heardAt = clock.monotonic();
    const take = (event: WatchProgress): void => {
      heardAt = clock.monotonic();
      if (event.kind === 'bookmark') return;
      const dates = datesOf(event.object, event.added);
      revisions.observe(event.identity.resourceVersion, dates);
      if ((dates.from ?? 0) >= begun) link.abort();
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

  return {
    observe: (version, when) => revisions.observe(version, when),
    bracket: (version) => revisions.bracket(version),
    agrees: (version, heardAt) => revisions.agrees(version, heardAt),
    learn: async (since, signal) => {
      const at = clock.monotonic();
      if (last !== undefined && at - last.at < LONGEST_MS) {
        const { reading, done } = last;
        const isCovered = isOlder(reading.since, since);
        if (isCovered || !reading.begun) {
          if (!isCovered) reading.since = since;
          await done;
          return;
        }
      }
      const reading = { since, begun: false };
      last = { reading, at, done: read(reading, signal) };
      await last.done;
    },
  };
}

/** Decimal numbers of one etcd; what is none is not read from. */
function isOlder(a: string, b: string): boolean {
  return a.length === b.length ? a <= b : a.length < b.length;
}
