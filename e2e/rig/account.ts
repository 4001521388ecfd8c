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
  /** From when on sampled usage has to show: pods that have just begun have no samples, and are no gap. */
  readonly sampledFrom: number;
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
  if (missingMs + absentMs > 0) note(wrong, 'gaps that are reported', evidence.gaps.map(showGap));
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
  const { ledger, gaps, stretch, windowMs } = evidence;
  const starts = new Set(ledger.map(({ window_start: start }) => Date.parse(start)));
  const pods = { scope: 'pods', tenantCluster: '*', isSampled: false };
  const empty = windowsOf(stretch, windowMs).filter(
    (window) => !starts.has(window.from) && !isCovered(window, coveredBy(gaps, pods, window)),
  );
  note(wrong, 'without an event and without a gap', empty.map(showWindow));
  return empty.length;
}

/**
 * How many series were billed beyond what ran, and for how long something ran that is neither billed nor reported. A credit that one
 * series waits for may be given to another of its tenant (docs/explanation/metering.md#late-facts): what is beyond and what is missing of one
 * tenant cluster's pods make up for each other.
 */
function billedSeries(
  evidence: Evidence,
  wrong: string[],
): { readonly overbilled: number; readonly missingMs: number } {
  let overbilled = 0;
  let missingMs = 0;
  const all = seriesWithin(evidence.stretch, evidence.ended).map((series) =>
    compareSeries(series, evidence),
  );
  for (const kin of Map.groupBy(all, ({ series }) => series.creditedWith).values()) {
    const sum = (msOf: (one: Compared) => number): number =>
      kin.reduce((total, one) => total + msOf(one), 0);
    const net = sum(({ beyondMs }) => beyondMs) - sum(({ missingMs: missing }) => missing);
    const tolerated = sum(({ toleratedMs }) => toleratedMs);
    if (net > tolerated) overbilled += kin.filter(({ beyondMs }) => beyondMs > 0).length;
    if (-net > tolerated) missingMs -= net;
    if (Math.abs(net) > tolerated) wrong.push(...kin.flatMap(({ wrong: sentence }) => sentence));
  }
  return { overbilled, missingMs };
}

interface Compared {
  readonly series: Series;
  /** Milliseconds; 0 where it is within the tolerance. */
  readonly beyondMs: number;
  readonly missingMs: number;
  readonly toleratedMs: number;
  readonly wrong: readonly string[];
}

function compareSeries(series: Series, evidence: Evidence): Compared {
  const ran = series.stretch.to - series.stretch.from;
  const toleratedMs = ran * TOLERANCE;
  const over = (ms: number): number => (ms > toleratedMs ? ms : 0);
  const events = evidence.ledger.filter(
    (event) => series.matches(event) && concerns(series, event),
  );
  const billed = billedMs(series, events);
  const beyondMs = over(billed - ran);
  const missingMs = over(unexplainedMs(series, events, evidence));
  const figures = `${series.name}: ran ${ran / 1000} s, billed ${billed / 1000} s`;
  const wrong = [
    ...(beyondMs > 0 ? [`billed beyond what ran: ${figures}`] : []),
    ...(missingMs > 0 ? [`neither billed nor in a gap: ${figures}`] : []),
  ];
  return { series, beyondMs, missingMs, toleratedMs, wrong };
}

/** What lasts is billed before and after the stretch as well. */
function concerns({ isShort, stretch }: Series, event: ReceivedEvent): boolean {
  const [start, end] = [Date.parse(event.window_start), Date.parse(event.window_end)];
  return isShort || (start >= stretch.from && end <= stretch.to);
}

function billedMs({ rate }: Series, events: readonly ReceivedEvent[]): number {
  return paidMs(Number(sumNanos(events)) / 1e9, rate);
}

/**
 * Milliseconds of a series that are not billed and that nothing explains. What explains is looked for in each window by itself, so
 * that a gap in one window hides nothing in another:
 *
 * 1. A gap with a reason explains its own stretch.
 * 2. A gap `unseen` explains what began and ended in it, and nothing else (docs/explanation/gaps.md#usage-that-nobody-saw).
 * 3. A late fact is billed in a later window (docs/explanation/metering.md#late-facts), so no more is missing than is not billed at all.
 * 4. `uncertain_seconds` explain that much of what has ended (docs/reference/events.md#uncertain).
 */
function unexplainedMs(
  series: Series,
  events: readonly ReceivedEvent[],
  { gaps, windowMs }: Evidence,
): number {
  const { stretch, isShort } = series;
  const [unseen, others] = partition(gaps, ({ reason }) => reason === 'unseen');
  if (isShort && isCovered(stretch, coveredBy(unseen, series, stretch))) return 0;
  const unbilled = stretch.to - stretch.from - billedMs(series, events);
  let missing = 0;
  for (const part of windowsOf(stretch, windowMs)) {
    const within = events.filter(
      ({ window_start: at }) => startOf(part, windowMs) === Date.parse(at),
    );
    const explained = lasting(coveredBy(others, series, part)) + billedMs(series, within);
    missing += Math.max(0, part.to - part.from - explained);
  }
  const uncertain = events.map(({ properties }) => Number(properties?.['uncertain_seconds'] ?? 0));
  const tolerated = isShort ? Math.max(0, ...uncertain) * 1000 : 0;
  return Math.max(0, Math.min(unbilled, missing) - tolerated);
}

function isCovered({ from, to }: Stretch, covered: readonly Stretch[]): boolean {
  return lasting(covered) === to - from;
}

function partition<T>(all: readonly T[], holds: (one: T) => boolean): readonly [T[], T[]] {
  return [all.filter(holds), all.filter((one) => !holds(one))];
}

/** Milliseconds of windows in which sampled usage shows nowhere. */
function absentUsage(evidence: Evidence, wrong: string[]): number {
  const { ledger, gaps, stretch, windowMs, sampledFrom } = evidence;
  const absentIn = (presence: Presence): readonly Stretch[] => {
    const starts = new Set(
      ledger.filter(presence.matches).map(({ window_start: start }) => Date.parse(start)),
    );
    return windowsOf(stretch, windowMs).filter(
      (window) =>
        window.from >= sampledFrom &&
        !starts.has(window.from) &&
        coveredBy(gaps, presence, window).length === 0,
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

/** A process that has won the Lease may send before it reports that it leads: it lists the cluster first. */
const WINNING_MS = 30_000;

/** Requests of a process while another one's term is the newest. Up to {@link WINNING_MS} before a term they count for that term. */
export function sentByOldLeader(
  requests: readonly SentRequest[],
  terms: readonly Term[],
  wrong: string[],
): number {
  const late = requests.filter(({ at, pid }) => {
    if (pid === undefined) return false;
    const own = terms.findLast((term) => term.pid === pid && term.from <= at + WINNING_MS);
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

/** A stretch in parts, each within one window. */
function windowsOf({ from, to }: Stretch, windowMs: number): readonly Stretch[] {
  const parts: Stretch[] = [];
  for (let at = from; at < to; ) {
    const end = Math.min(to, startOf({ from: at }, windowMs) + windowMs);
    parts.push({ from: at, to: end });
    at = end;
  }
  return parts;
}

/** Of the window that something begins in. */
function startOf({ from }: Pick<Stretch, 'from'>, windowMs: number): number {
  return Math.floor(from / windowMs) * windowMs;
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

function showGap({ source, reason, scopes, stretches }: ReportedGap): string {
  const when = stretches.map(({ from, to }) => `${from} to ${to}`).join(' and ');
  return `${source} of ${scopes.join(' and ')} ${when} (${reason})`;
}

function showWindow({ from }: Stretch): string {
  return new Date(from).toISOString();
}
