import { METER_SCOPES } from '../metering/meters/meters.ts';
import type { Gap } from './views.ts';
import type { TimeRange } from '../model/window.ts';

const HOUR_MS = 3_600_000;
/** Stretches of one cause that lie no further apart are one happening. */
const SAME_HAPPENING_MS = HOUR_MS;
/** What is shown of a group; the rest is counted. */
const SHOWN_SCOPES = 50;
const SHOWN_STRETCHES = 200;

/** Gaps of one cause at about the same time. */
export interface GapGroup extends TimeRange {
  readonly source: string;
  /** Of the newest of them. */
  readonly reason: string;
  /** How many different reasons of the same form there are. */
  readonly reasons: number;
  /** Still growing: its cause has not ended. */
  readonly open: boolean;
  readonly gaps: number;
  /** What was not measured, the first of them, and how many there are. */
  readonly scopes: readonly string[];
  readonly scopeCount: number;
  /** When something was not measured: the gaps laid over one another, the newest first. */
  readonly stretches: readonly TimeRange[];
  /** Milliseconds that those last together. */
  readonly lasted: number;
}

/**
 * Gaps by cause, then by time; open ones first, then the newest. A gap is open while it reaches the
 * end of the last closed window.
 */
export function groupGaps(
  gaps: readonly Gap[],
  lastWindowEnd: number | undefined,
): readonly GapGroup[] {
  const isOpen = ({ to }: Gap): boolean => lastWindowEnd === undefined || to >= lastWindowEnd;
  const causes = Map.groupBy(gaps, (gap) => `${isOpen(gap)} ${gap.source} ${formOf(gap.reason)}`);
  return [...causes.values()]
    .flatMap(happenings)
    .map((group) => describe(group, group.some(isOpen)))
    .toSorted((a, b) => Number(b.open) - Number(a.open) || b.to - a.to || b.from - a.from);
}

/** Reasons that differ only in what they name are of one cause. */
function formOf(reason: string): string {
  return reason.replaceAll(/"[^"]*"/g, '""').replaceAll(/\d+/g, '0');
}

function happenings(gaps: readonly Gap[]): readonly (readonly Gap[])[] {
  const groups: Gap[][] = [];
  let end = Number.NEGATIVE_INFINITY;
  for (const gap of gaps.toSorted((a, b) => a.from - b.from)) {
    const last = groups.at(-1);
    if (last === undefined || gap.from > end + SAME_HAPPENING_MS) groups.push([gap]);
    else last.push(gap);
    end = Math.max(end, gap.to);
  }
  return groups;
}

function describe(gaps: readonly Gap[], open: boolean): GapGroup {
  const newest = gaps.reduce((best, gap) => (gap.to > best.to ? gap : best));
  const scopes = [...new Set(gaps.map(({ scope }) => scope))].toSorted();
  const stretches = union(gaps);
  return {
    source: newest.source,
    reason: newest.reason,
    reasons: new Set(gaps.map(({ reason }) => reason)).size,
    open,
    gaps: gaps.length,
    scopes: scopes.slice(0, SHOWN_SCOPES),
    scopeCount: scopes.length,
    from: Math.min(...stretches.map(({ from }) => from)),
    to: newest.to,
    stretches: stretches.slice(0, SHOWN_STRETCHES),
    lasted: stretches.reduce((sum, { from, to }) => sum + to - from, 0),
  };
}

/** Stretches laid over one another, newest first. */
function union(gaps: readonly TimeRange[]): readonly TimeRange[] {
  const merged: TimeRange[] = [];
  for (const { from, to } of gaps.toSorted((a, b) => a.from - b.from)) {
    const last = merged.at(-1);
    if (last === undefined || from > last.to) merged.push({ from, to });
    else merged[merged.length - 1] = { from: last.from, to: Math.max(last.to, to) };
  }
  return merged.toReversed();
}

/**
 * Whether a gap bears on a metric's scope in a tenant cluster: it is of the scope, or of the tenant
 * cluster. Usage that was not sampled bears on CPU and memory, anything else on all that its own API shows.
 */
export function bearsOn(gap: Gap, scope: string, clusters: ReadonlySet<string>): boolean {
  if (gap.scope === scope) return true;
  if (gap.scope !== '*' && !clusters.has(gap.scope)) return false;
  return gap.source === 'metrics' ? scope === 'pods' : gap.source !== 'prometheus';
}

/** Scopes that are all tenants' alike. */
const COMMON_SCOPES = new Set(['*', 'tenant-api', 'prometheus', ...METER_SCOPES]);

/**
 * A gap as a tenant with these tenant clusters may read of it; undefined where it does not concern them. Reasons are for
 * operators: they name hosts and whatever else was in the way.
 */
export function forTenant(gap: Gap, clusters: ReadonlySet<string>): Gap | undefined {
  if (!clusters.has(gap.scope) && !COMMON_SCOPES.has(gap.scope)) return undefined;
  return { ...gap, reason: 'the provider can say why' };
}

/** The part of a gap that lies in a range; undefined where there is none. */
export function clip(gap: Gap, { from, to }: TimeRange): Gap | undefined {
  if (gap.from >= to || gap.to <= from) return undefined;
  return { ...gap, from: Math.max(gap.from, from), to: Math.min(gap.to, to) };
}
