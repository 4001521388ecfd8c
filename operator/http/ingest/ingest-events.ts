import type { IngestToken } from '../../settings/settings.ts';
import type { PushOutcome } from '../../billing/held-usage/held-usage.ts';
import type { HeldUsage } from '../../billing/held-usage/ledger-held-usage.ts';
import type { EventOutcome } from '../../ledger/ledger.ts';
import { type Catalog, isGeneralDimension, isMeasured } from '../../model/catalog.ts';
import { completeEvent } from '../../model/complete-event.ts';
import { EVENT_ID_PREFIX, scopedEventId } from '../../model/event-id.ts';
import { EVENT_SCHEMA } from '../../model/event-schema.ts';
import type { UsageEvent } from '../../model/event.ts';
import { quote } from '../../model/validate-event.ts';
import { formatInstant } from '../../model/window.ts';
import type { TimeSlice } from '../../telemetry/time-slice.ts';
import type { MeteredHere } from './metered-here.ts';

/** A window may end this far ahead of our clock: clients' clocks differ. */
const MAX_EARLY_MS = 5 * 60_000;

/** The oldest usage that destinations accept. The ledger does not remember older ids either. */
const MAX_AGE_MS = 34 * 24 * 3_600_000;

/**
 * The body of the answer (docs/reference/openapi.yaml). `ids` are the recorded ids of all valid
 * events, in the order sent.
 */
export interface IngestAnswer {
  readonly accepted: number;
  readonly duplicates: number;
  readonly rejected: readonly Rejection[];
  readonly ids: readonly string[];
  /**
   * Accepted and duplicate events that are held until an operator decides; absent when there are
   * none.
   */
  readonly held?: readonly { readonly tenant: string; readonly events: number }[];
  /** Events that may have been recorded differently than meant; absent when there are none. */
  readonly warnings?: readonly Warning[];
}

interface Warning {
  /** Position among the events sent. */
  readonly index: number;
  readonly id: string;
  /** `what: where: "input": what became of it` */
  readonly warning: string;
}

interface Rejection {
  /** Position among the events sent. */
  readonly index: number;
  readonly id?: string;
  /** `what: where: "input"` */
  readonly error: string;
}

interface IngestContext {
  /** Milliseconds since the epoch. */
  readonly now: number;
  readonly retentionMs: number;
  /** The ledger may have forgotten ids of windows that ended at or before this time. */
  readonly horizon: number;
  readonly client: string;
  readonly region: string;
  readonly catalog: Catalog;
  readonly meteredHere: MeteredHere;
  /** Metrics that events of gateways fill. */
  readonly summed: ReadonlySet<string>;
  readonly scope: Pick<IngestToken, 'metrics' | 'tenants'>;
  /** Shared by all requests. */
  readonly slice: Pick<TimeSlice, 'isOver' | 'next'>;
}

export type IngestOutcome =
  | { readonly kind: 'answered'; readonly answer: IngestAnswer }
  /**
   * Nothing is recorded: it is unknown yet whether this operator measures one of the events itself.
   */
  | { readonly kind: 'not-known-yet' }
  /** Nothing is recorded: the token does not allow one of the events. */
  | { readonly kind: 'out-of-scope'; readonly problem: string }
  | Exclude<PushOutcome, { kind: 'appended' }>;

/**
 * Checks each event, appends the valid ones as one durable batch, and reports the outcome of each.
 */
export async function ingestEvents(
  inputs: readonly unknown[],
  context: IngestContext,
  ledger: Pick<HeldUsage, 'push'>,
): Promise<IngestOutcome> {
  const rejected: Rejection[] = [];
  const warnings: Warning[] = [];
  const good: { readonly index: number; readonly event: UsageEvent }[] = [];
  const completion = {
    recordedAt: new Date(context.now).toISOString(),
    source: `ingest:${context.client}`,
    region: context.region,
    unitOf: (metric: string) => context.catalog.find(metric)?.unit,
  };
  const windowRefusal = acceptWindows(context);
  for (const [index, input] of inputs.entries()) {
    if (context.slice.isOver) await context.slice.next();
    const completed = completeEvent(input, completion);
    if (completed.kind === 'invalid') {
      const { id, problem } = completed;
      rejected.push({ index, id, error: problem });
      continue;
    }
    const beyond = beyondScope(completed.event, context.scope);
    if (beyond !== undefined) return { kind: 'out-of-scope', problem: beyond };
    const event = withScopedId(completed.event, context.scope);
    const measured = isMeasured(context.catalog.find(event.metric));
    const metered = measured ? context.meteredHere(event) : 'no';
    const refusal =
      windowRefusal(event) ??
      (measured ? foreignRegion(event, context.region) : undefined) ??
      (metered === 'yes' ? measuredHere(event) : undefined) ??
      summedHere(event, context.summed);
    if (refusal === undefined && metered === 'not-known-yet') return { kind: 'not-known-yet' };
    if (refusal !== undefined) {
      rejected.push({ index, id: event.id, error: refusal });
      continue;
    }
    good.push({ index, event });
    const unusual = [completed.rounded, ignored(input), undeclared(event, context.catalog)];
    for (const warning of unusual) {
      if (warning !== undefined) warnings.push({ index, id: event.id, warning });
    }
  }
  if (good.length === 0) return answer([], rejected, []);
  const pushed = await ledger.push(good.map(({ event }) => event));
  if (pushed.kind !== 'appended') return pushed;
  const { held, outcomes } = pushed;
  return answer(good, rejected, outcomes, {
    ...(held.size > 0 && { held: [...held].map(([tenant, events]) => ({ tenant, events })) }),
    ...(warnings.length > 0 && { warnings }),
  });
}

function answer(
  good: readonly { readonly index: number; readonly event: UsageEvent }[],
  refused: readonly Rejection[],
  outcomes: readonly EventOutcome[],
  more: Pick<IngestAnswer, 'held' | 'warnings'> = {},
): IngestOutcome {
  const counts = { accepted: 0, duplicate: 0, conflict: 0 };
  const rejected = [...refused];
  const ids: string[] = [];
  for (const [position, { index, event }] of good.entries()) {
    const outcome = outcomes[position] ?? 'conflict';
    counts[outcome] += 1;
    if (outcome === 'conflict') rejected.push({ index, id: event.id, error: conflict(event) });
    else ids.push(event.id);
  }
  const inOrder = rejected.toSorted((a, b) => a.index - b.index);
  const { accepted, duplicate: duplicates } = counts;
  return { kind: 'answered', answer: { accepted, duplicates, rejected: inOrder, ids, ...more } };
}

/**
 * The warning about unknown fields; undefined when there are none. They are not refused: a sender
 * may have a newer schema, and its usage must not be lost (docs/reference/events.md#pushed-events).
 */
function ignored(input: unknown): string | undefined {
  const others = Object.keys(input ?? {}).filter(
    (key) => !Object.hasOwn(EVENT_SCHEMA.properties, key),
  );
  if (others.length === 0) return undefined;
  return `unknown field: ${quote(others.join(', '))}: ignored; further details belong in dimensions or properties`;
}

/**
 * The warning about dimensions that the metric does not declare; undefined when there are none.
 * They are recorded and delivered, but no price can depend on them.
 */
function undeclared({ metric, dimensions }: UsageEvent, catalog: Catalog): string | undefined {
  if (dimensions === undefined) return undefined;
  const declared = catalog.find(metric)?.dimensions ?? [];
  const others = Object.keys(dimensions).filter(
    (key) => !declared.includes(key) && !isGeneralDimension(key),
  );
  if (others.length === 0) return undefined;
  const keys = others.map((key) => JSON.stringify(key)).join(', ');
  return `not declared for metric ${quote(metric)}: dimensions: ${keys}: kept, but no price can depend on it; declare it in CUSTOM_METRICS or MeteringPolicy spec.customMetrics`;
}

function conflict({ id }: UsageEvent): string {
  return `recorded with another quantity or identity: id: ${quote(id)}`;
}

/**
 * The error for usage that the collector measures. The first write of an id wins in the ledger, so
 * a client must not write it first (docs/reference/events.md#pushed-events).
 */
function measuredHere(event: UsageEvent): string {
  const where = `metric: ${quote(event.metric)}`;
  return `measured here by the collector: ${where}: tenant ${quote(event.tenant)} is metered by this operator`;
}

/**
 * The error for usage with the id of a sum of gateways' events, which the ledger records when the
 * hour is over. An event of that id would take the place of the sum.
 */
function summedHere({ id, metric }: UsageEvent, summed: ReadonlySet<string>): string | undefined {
  if (!summed.has(metric) || !id.startsWith(EVENT_ID_PREFIX)) return undefined;
  return `summed from events of gateways: metric: ${quote(metric)}: send CloudEvents, or give the event an id of your own`;
}

/**
 * The error for a region of another control plane; undefined for this one. The region is part of
 * the event id. At a destination that both feed, such an event could replace one that the other
 * control plane measures. Regions of nodes (REGION_FROM_NODE) belong to measured events, which
 * nobody pushes.
 */
function foreignRegion({ metric, region }: UsageEvent, own: string): string | undefined {
  if (region === own) return undefined;
  const where = `region: ${quote(region)}`;
  return `not of this control plane: ${where}: send ${quote(metric)} for ${quote(own)}, or leave the region out`;
}

function beyondScope(
  { metric, tenant }: UsageEvent,
  { metrics, tenants }: IngestContext['scope'],
): string | undefined {
  const refuse = (name: string, value: string): string =>
    `token not allowed here: ${name}: ${quote(value)}: use one whose scope in INGEST_TOKEN has it in ${name}s=`;
  if (metrics?.includes(metric) === false) return refuse('metric', metric);
  return tenants?.includes(tenant) === false ? refuse('tenant', tenant) : undefined;
}

/**
 * The event with the id that the ledger records. The ids of a scoped token are derived again,
 * unless they have the form of the ledger's ids.
 */
function withScopedId(event: UsageEvent, { metrics, tenants }: IngestContext['scope']): UsageEvent {
  const isScoped = metrics !== undefined || tenants !== undefined;
  if (!isScoped || event.id.startsWith(EVENT_ID_PREFIX)) return event;
  const { tenant, metric } = event;
  const scope = { ...(tenants && { tenant }), ...(metrics && { metric }) };
  return { ...event, id: scopedEventId(scope, event.id) };
}

/** Why the window of an event is not accepted; undefined when it is. */
type WindowRefusal = (event: UsageEvent) => string | undefined;

/**
 * Returns the check of windows that are accepted now (docs/reference/events.md#pushed-events).
 * Deduplication must cover every accepted event, so none is older than the ids in the ledger.
 * Instants of one format compare as texts.
 */
function acceptWindows({ now, retentionMs, horizon }: IngestContext): WindowRefusal {
  const oldest = Math.max(now - Math.min(retentionMs, MAX_AGE_MS), horizon + 1);
  const newestEnd = formatInstant(now + MAX_EARLY_MS);
  const oldestEnd = formatInstant(toNextSecond(oldest));
  const oldestStart = formatInstant(toNextSecond(now - MAX_AGE_MS));
  return ({ window_start: start, window_end: end }) => {
    if (end > newestEnd) {
      return `more than 5 minutes ahead: window_end: ${quote(end)}: send it once it has ended`;
    }
    if (end < oldestEnd) {
      return `too old: window_end: ${quote(end)}: the oldest accepted is ${oldestEnd}`;
    }
    if (start < oldestStart) {
      return `too old: window_start: ${quote(start)}: the oldest accepted is ${oldestStart}`;
    }
    return undefined;
  };
}

function toNextSecond(ms: number): number {
  return Math.ceil(ms / 1000) * 1000;
}
