import { METER_SCOPES } from '../metering/meters/meters.ts';
import type { Gap } from './views.ts';
import type { TimeRange } from '../model/window.ts';

const HOUR_MS = 3_600_000;
/** Gaps of one cause with at most this distance form one group. */
const SAME_GROUP_MS = HOUR_MS;
/** Listed scopes and stretches of a group; `scopeCount` and `lasted` cover all of them. */
const SHOWN_SCOPES = 50;
const SHOWN_STRETCHES = 200;

/** Gaps of one cause at about the same time. */
export interface GapGroup extends TimeRange {
  readonly source: string;
  /** The reason of the newest gap. */
  readonly reason: string;
  /** Number of different reasons. They differ only in quoted names and numbers. */
  readonly reasons: number;
  /** True while the gap still grows. */
  readonly open: boolean;
  readonly gaps: number;
  /** The first scopes that were not measured; `scopeCount` counts all of them. */
  readonly scopes: readonly string[];
  readonly scopeCount: number;
  /** When something was not measured: overlapping gaps merged, newest first. */
  readonly stretches: readonly TimeRange[];
  /** Milliseconds of all stretches together. */
  readonly lasted: number;
}

/**
 * Groups gaps by cause and time: open groups first, then the newest. A gap is open when it reaches
 * the end of the last closed window.
 */
export function groupGaps(
  gaps: readonly Gap[],
  lastWindowEnd: number | undefined,
): readonly GapGroup[] {
  const isOpen = ({ to }: Gap): boolean => lastWindowEnd === undefined || to >= lastWindowEnd;
  const causes = Map.groupBy(gaps, (gap) => `${isOpen(gap)} ${gap.source} ${formOf(gap.reason)}`);
  return [...causes.values()]
    .flatMap(splitByTime)
    .map((group) => describe(group, group.some(isOpen)))
    .toSorted((a, b) => Number(b.open) - Number(a.open) || b.to - a.to || b.from - a.from);
}

/** The reason without its quoted names and numbers. Gaps with equal forms have one cause. */
function formOf(reason: string): string {
  return reason.replaceAll(/"[^"]*"/g, '""').replaceAll(/\d+/g, '0');
}

function splitByTime(gaps: readonly Gap[]): readonly (readonly Gap[])[] {
  const groups: Gap[][] = [];
  let end = Number.NEGATIVE_INFINITY;
  for (const gap of gaps.toSorted((a, b) => a.from - b.from)) {
    const last = groups.at(-1);
    if (last === undefined || gap.from > end + SAME_GROUP_MS) groups.push([gap]);
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

/** Merges overlapping stretches; newest first. */
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
 * Whether a gap affects a scope of metrics in these tenant clusters:
 *
 * 1. A gap of that scope affects it.
 * 2. A gap of another scope affects it only when the gap is of `*` or of one of the tenant
 *    clusters.
 * 3. Such a gap of source `metrics` affects CPU and memory (`pods`) only.
 * 4. Such a gap of source `prometheus` affects no scope; one of any other source affects all.
 */
export function bearsOn(gap: Gap, scope: string, clusters: ReadonlySet<string>): boolean {
  if (gap.scope === scope) return true;
  if (gap.scope !== '*' && !clusters.has(gap.scope)) return false;
  return gap.source === 'metrics' ? scope === 'pods' : gap.source !== 'prometheus';
}

/** Scopes that concern every tenant. */
const COMMON_SCOPES = new Set(['*', 'tenant-api', 'prometheus', ...METER_SCOPES]);

/**
 * The gap as a tenant with these tenant clusters may read it; undefined when it does not concern
 * them. The reason is replaced: it names hosts and is for operators.
 */
export function forTenant(gap: Gap, clusters: ReadonlySet<string>): Gap | undefined {
  if (!clusters.has(gap.scope) && !COMMON_SCOPES.has(gap.scope)) return undefined;
  return { ...gap, reason: 'ask the provider for the reason' };
}

/** The part of a gap inside a range; undefined when there is none. */
export function clip(gap: Gap, { from, to }: TimeRange): Gap | undefined {
  if (gap.from >= to || gap.to <= from) return undefined;
  return { ...gap, from: Math.max(gap.from, from), to: Math.min(gap.to, to) };
}
