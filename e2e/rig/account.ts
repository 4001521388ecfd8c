import { type ReceivedEvent, repeatedIds, sumNanos } from '../long/received.ts';
import type { PodTruth } from '../simulator/truth.ts';
import { coveredBy, lasting, type ReportedGap, type Stretch } from './gaps.ts';
import type { Term } from './leader-log.ts';
import type { Recorded, SentRequest } from './recorder.ts';
import { paidMs, type Presence, SAMPLED, type Series, seriesWithin } from './truth.ts';

/** What a run left behind. */
export interface Evidence {
  /** For which everything has to be accounted for; whole windows. */
  readonly stretch: Stretch;
  readonly windowMs: number;
  /** What the simulator did. */
  readonly ended: readonly PodTruth[];
  /** All events of the ledger. */
  readonly ledger: readonly ReceivedEvent[];
  readonly gaps: readonly ReportedGap[];
  readonly recorded: Recorded;
  readonly terms: readonly Term[];
}

/** What went wrong in a run; all are 0 where nothing did. */
export interface Figures {
  /** Events of the ledger that never arrived at the receiver. */
  readonly lost: number;
  /** Event ids that arrived with two contents, or are not in the ledger, or twice; and whatever is billed beyond what ran. */
  readonly duplicated: number;
  /** Windows without an event and without a gap, though pods ran. */
  readonly empty_windows: number;
  /** Seconds of something that ran which are neither billed nor in a gap. */
  readonly unreported: number;
  /** Requests at the receiver of a process after another one led. */
  readonly sent_by_old_leader: number;
}

export const NOTHING_WRONG: Figures = {
  lost: 0,
  duplicated: 0,
  empty_windows: 0,
  unreported: 0,
  sent_by_old_leader: 0,
};

export const FIGURES = [
  'lost',
  'duplicated',
  'empty_windows',
  'unreported',
  'sent_by_old_leader',
] as const satisfies readonly (keyof Figures)[];

export interface Account {
  readonly figures: Figures;
  /** A sentence on each thing that is wrong. */
  readonly wrong: readonly string[];
}

/** A quantity is rounded to nine decimals once in each window. */
const TOLERANCE = 1e-6;

/** Compares what was billed, delivered and reported with what ran. It takes no sum from the program. */
export function accountFor(evidence: Evidence): Account {
  const wrong: string[] = [];
  const lost = lostEvents(evidence, wrong);
  const empty = emptyWindows(evidence, wrong);
  const stray = strayIds(evidence, wrong);
  const { overbilled, missingMs } = billedSeries(evidence, wrong);
  const absentMs = absentUsage(evidence, wrong);
  const late = sentByOldLeader(evidence.recorded.requests, evidence.terms, wrong);
  return {
    figures: {
      lost,
      duplicated: stray + overbilled,
      empty_windows: empty,
      unreported: Math.round(missingMs + absentMs) / 1000,
      sent_by_old_leader: late,
    },
    wrong,
  };
}

function lostEvents({ ledger, stretch, recorded }: Evidence, wrong: string[]): number {
  const due = ledger.filter(({ window_end: end }) => Date.parse(end) <= stretch.to);
  const lost = due.filter(({ id }) => !recorded.usage.has(id));
  note(wrong, 'in the ledger, never received', lost.map(describe));
  return lost.length;
}

function strayIds({ ledger, recorded }: Evidence, wrong: string[]): number {
  const known = new Set(ledger.map(({ id }) => id));
  const contradicted = [...recorded.usage].filter(([, contents]) => contents.size > 1);
  const unknown = [...recorded.usage].filter(([id]) => !known.has(id));
  const repeated = repeatedIds(ledger);
  note(wrong, 'received with two contents', contradicted.map(textsOf));
  note(wrong, 'received, not in the ledger', unknown.map(textsOf));
  note(wrong, 'twice in the ledger', repeated);
  return contradicted.length + unknown.length + repeated.length;
}

function emptyWindows(evidence: Evidence, wrong: string[]): number {
  const { ledger, gaps } = evidence;
  const starts = new Set(ledger.map(({ window_start: start }) => Date.parse(start)));
  const pods = { scope: 'pods', tenantCluster: '*', isSampled: false };
  const empty = windowsOf(evidence).filter(
    (window) =>
      !starts.has(window.from) && lasting(coveredBy(gaps, pods, window)) < window.to - window.from,
  );
  note(wrong, 'without an event and without a gap', empty.map(showWindow));
  return empty.length;
}

/** How much of what ran at a known rate was billed too often, and how long it was not billed without a word. */
function billedSeries(
  { stretch, ended, ledger, gaps }: Evidence,
  wrong: string[],
): { readonly overbilled: number; readonly missingMs: number } {
  let overbilled = 0;
  let missingMs = 0;
  for (const series of seriesWithin(stretch, ended)) {
    const ran = series.stretch.to - series.stretch.from;
    const events = ledger.filter((event) => series.matches(event) && concerns(series, event));
    const billed = paidMs(Number(sumNanos(events)) / 1e9, series.rate);
    const excess = billed - ran;
    const missing = ran - billed - explainedMs(series, events, gaps);
    const figures = `ran ${ran / 1000} s, billed ${billed / 1000} s`;
    if (excess > ran * TOLERANCE) {
      overbilled += 1;
      wrong.push(`billed beyond what ran: ${series.name}: ${figures}`);
    }
    if (missing > ran * TOLERANCE) {
      missingMs += missing;
      wrong.push(`neither billed nor in a gap: ${series.name}: ${figures}`);
    }
  }
  return { overbilled, missingMs };
}

/** What lasts is billed before and after the stretch as well. */
function concerns({ isShort, stretch }: Series, event: ReceivedEvent): boolean {
  const [start, end] = [Date.parse(event.window_start), Date.parse(event.window_end)];
  return isShort || (start >= stretch.from && end <= stretch.to);
}

/**
 * Milliseconds of a series that its gaps and the uncertainty of its events explain (docs/events.md#uncertain). A gap `unseen`
 * explains only what began and ended in it (docs/metering.md#usage-that-nobody-saw).
 */
function explainedMs(
  series: Series,
  events: readonly ReceivedEvent[],
  gaps: readonly ReportedGap[],
): number {
  const { stretch, isShort } = series;
  const ran = stretch.to - stretch.from;
  const [unseen, others] = partition(gaps, ({ reason }) => reason === 'unseen');
  if (isShort && lasting(coveredBy(unseen, series, stretch)) === ran) return ran;
  const covered = lasting(coveredBy(others, series, stretch));
  if (!isShort) return covered;
  const uncertain = events.map(({ properties }) => Number(properties?.['uncertain_seconds'] ?? 0));
  return covered + Math.max(0, ...uncertain) * 1000;
}

function partition<T>(all: readonly T[], holds: (one: T) => boolean): readonly [T[], T[]] {
  return [all.filter(holds), all.filter((one) => !holds(one))];
}

/** Milliseconds of windows in which sampled usage shows nowhere. */
function absentUsage(evidence: Evidence, wrong: string[]): number {
  const { ledger, gaps } = evidence;
  const absentIn = (presence: Presence): readonly Stretch[] => {
    const starts = new Set(
      ledger.filter(presence.matches).map(({ window_start: start }) => Date.parse(start)),
    );
    return windowsOf(evidence).filter(
      (window) => !starts.has(window.from) && coveredBy(gaps, presence, window).length === 0,
    );
  };
  let absentMs = 0;
  for (const presence of SAMPLED) {
    const absent = absentIn(presence);
    absentMs += lasting(absent);
    note(wrong, `neither billed nor in a gap: ${presence.name}`, absent.map(showWindow));
  }
  return absentMs;
}

/** A term is first seen a moment after it began. */
const SEEN_LATE_MS = 2_000;

/**
 * Requests of a process while another one's term is the newest. A process whose next term is about to be seen leads already;
 * so requests count for its term up to {@link SEEN_LATE_MS} before.
 */
export function sentByOldLeader(
  requests: readonly SentRequest[],
  terms: readonly Term[],
  wrong: string[],
): number {
  const late = requests.filter(({ at, pid }) => {
    if (pid === undefined) return false;
    const own = terms.findLast((term) => term.pid === pid && term.from <= at + SEEN_LATE_MS);
    return terms.some(
      (term) => term.pid !== pid && term.from <= at && term.from > (own?.from ?? 0),
    );
  });
  note(
    wrong,
    'sent after another process led',
    late.map(({ at, pid }) => `${new Date(at).toISOString()} by ${pid}`),
  );
  return late.length;
}

function windowsOf({ stretch, windowMs }: Evidence): readonly Stretch[] {
  const count = Math.floor((stretch.to - stretch.from) / windowMs);
  return Array.from({ length: count }, (_, index) => {
    const from = stretch.from + index * windowMs;
    return { from, to: from + windowMs };
  });
}

const SHOWN = 5;

function note(wrong: string[], what: string, which: readonly string[]): void {
  if (which.length === 0) return;
  const more = which.length > SHOWN ? `, and ${which.length - SHOWN} more` : '';
  wrong.push(`${what}: ${which.slice(0, SHOWN).join(', ')}${more}`);
}

function describe({ id, metric, tenant, window_start: start }: ReceivedEvent): string {
  return `${id} (${metric} of ${tenant} from ${start})`;
}

function textsOf([id, contents]: readonly [string, ReadonlySet<string>]): string {
  return `${id} (${[...contents].join(' and ')})`;
}

function showWindow({ from }: Stretch): string {
  return new Date(from).toISOString();
}
