import type { Clock } from '../telemetry/clock.ts';
import { linkAbort, pause } from './abort.ts';
import type { Revisions } from './catch-up.ts';
import type { Connection } from './connection.ts';
import { followWatch, type WatchProgress } from './list-and-watch.ts';
import { createRevisionClock, datesOf } from './revision-clock.ts';

export interface RevisionSurveyOptions {
  readonly connection: Pick<Connection, 'stream'>;
  /** Of collections that are written often, all in one etcd. */
  readonly paths: readonly string[];
  readonly clock: Clock;
}

/** What was missed arrives at once; milliseconds. */
const QUIET_MS = 300;
const LONGEST_MS = 5_000;
const LOOK_MS = 50;

/** One reading of what was missed. */
interface Reading {
  since: string;
  begun: boolean;
}

/**
 * Reads what was missed of some collections once more, before the watches take it in, only for the dates
 * that are in it: so a volume that went is dated by the pods that were written before and after it.
 */
export function createRevisionSurvey(options: RevisionSurveyOptions): Revisions {
  const revisions = createRevisionClock();
  const { clock } = options;
  let last:
    | { readonly reading: Reading; readonly at: number; readonly done: Promise<void> }
    | undefined;

  const read = async (reading: Reading, signal: AbortSignal): Promise<void> => {
    // Watches go on together, from versions of their own: the oldest of them is read from.
    await pause(clock, LOOK_MS, signal);
    reading.begun = true;
    await Promise.all(options.paths.map((path) => readOne(options, path, reading, signal)));
  };

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
