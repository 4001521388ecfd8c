import { nanosFromDecimal } from '../../operator/model/decimal.ts';
import type { ReceivedEvent } from '../long/received.ts';
import { type Blind, isUnseen, nanosOf, WINDOW_MS } from './figures.ts';
import { accountOf, type Moment, type Stretch, type Undated } from './undated.ts';

/** What had a change without a time in the API, held against when it really changed. */
export interface UndatedFigures {
  readonly of: string;
  readonly things: number;
  /** Of them those that changed while the operator was down. */
  readonly while_down: number;
  /** Of those the ones that came and went without any watch that tells of it; nobody can bill them. */
  readonly never_reported: number;
  /** Billed beyond the truth; one line each. */
  readonly overbilled: readonly string[];
  /** Billed less than the truth by more than the events say; one line each. */
  readonly unsaid: readonly string[];
  /** Those that have no event which could say it: nothing is billed in the window in which they ended or began; one line each. */
  readonly without_event: readonly string[];
  /** The most that one was billed beyond its change because that arrived later, seconds. */
  readonly arrival_seconds_max: number;
  /** The most that one was billed less than the truth, seconds of it. */
  readonly short_seconds_max: number;
}

/** What has no time counts from its arrival at a live watch, which has so long for it. */
const LIVE_MS = 1_000;

/** Rounding, and the way of a beginning to the operator. */
const NEAR_MS = 50;

/**
 * Nothing is billed beyond the truth, and nothing less than it by more than its events say in
 * `uncertain_seconds`. What a live watch told may be off by the way from the API server to the operator.
 */
export function compareUndated(
  all: readonly Undated[],
  blinds: readonly Blind[],
  events: readonly ReceivedEvent[],
): readonly UndatedFigures[] {
  const billed = billsOf(events);
  const measuredFrom = Math.min(...events.map((event) => Date.parse(event.window_start)));
  const measured = all.filter(({ stretches }) =>
    stretches.every(({ from }) => from.from >= measuredFrom),
  );
  return [...Map.groupBy(measured, ({ what }) => what)].map(([of, things]) => {
    const decisions = things.map((thing) => decisionOf(thing, blinds, billed));
    const most = (seconds: (decision: Decision) => number): number =>
      Math.max(0, ...decisions.map(seconds));
    return {
      of,
      things: things.length,
      while_down: decisions.filter(({ whileDown }) => whileDown).length,
      never_reported: decisions.filter(({ neverReported }) => neverReported).length,
      overbilled: decisions.flatMap(({ over }) => over ?? []),
      unsaid: decisions.flatMap(({ unsaid }) => unsaid ?? []),
      without_event: decisions.flatMap(({ withoutEvent }) => withoutEvent ?? []),
      arrival_seconds_max: most(({ beyond }) => beyond),
      short_seconds_max: most(({ short }) => short),
    };
  });
}

interface Decision {
  readonly whileDown: boolean;
  readonly neverReported: boolean;
  readonly over?: string;
  readonly unsaid?: string;
  readonly withoutEvent?: string;
  /** Seconds. */
  readonly beyond: number;
  readonly short: number;
}

interface Bill {
  /** Billionths by metric. */
  readonly paid: Map<string, bigint>;
  events: number;
  uncertainMs: number;
}

function billsOf(events: readonly ReceivedEvent[]): ReadonlyMap<string, Bill> {
  const bills = new Map<string, Bill>();
  for (const { metric, quantity, dimensions, properties } of events) {
    const part = dimensions?.['node'] ?? dimensions?.['namespace'] ?? '';
    const account = accountOf(dimensions?.['tenant_cluster'] ?? '', part);
    const bill = bills.get(account) ?? { paid: new Map(), events: 0, uncertainMs: 0 };
    bills.set(account, bill);
    bill.paid.set(metric, (bill.paid.get(metric) ?? 0n) + nanosFromDecimal(quantity));
    bill.events += 1;
    const uncertain = Number(properties?.['uncertain_seconds'] ?? 0) * 1000;
    bill.uncertainMs = Math.max(bill.uncertainMs, uncertain);
  }
  return bills;
}

function decisionOf(
  { name, accounts, kind, stretches, dated, ownerUnseen }: Undated,
  blinds: readonly Blind[],
  billed: ReadonlyMap<string, Bill>,
): Decision {
  const bills = accounts.flatMap((account) => billed.get(account) ?? []);
  const uncertainMs = Math.max(0, ...bills.map((bill) => bill.uncertainMs));
  const events = bills.reduce((sum, bill) => sum + bill.events, 0);
  const changes = stretches.flatMap(({ from, to }) => [from, to]).filter(isUndated);
  const whileDown = changes.some((change) => isDown(change, blinds));
  const isOff = (moments: readonly Moment[]) => moments.some((one) => !isDown(one, blinds));
  const first = Math.min(...stretches.map(({ from }) => from.from));
  const last = Math.max(...stretches.map(({ to }) => to.to));
  const neverReported = ownerUnseen === true || isUnseen(blinds, kind, first, last);
  const arrivalMs = dated !== true && isOff(changes) ? LIVE_MS : 0;
  const decision = { whileDown, neverReported, beyond: 0, short: 0 };
  for (const [metric, parts] of Map.groupBy(stretches, (stretch) => stretch.metric)) {
    const rate = Math.max(...parts.map(({ perHour }) => perHour));
    const paid = bills.reduce((sum, bill) => sum + (bill.paid.get(metric) ?? 0n), 0n);
    // Each event is rounded by half a billionth.
    const rounding = BigInt(events + parts.length);
    const beyond = paid - mostOf(parts) - rounding;
    const short = leastOf(parts) - paid - rounding;
    const seconds = (nanos: bigint): number => (Number(nanos) / 1e9 / rate) * 3_600;
    const stated = uncertainMs + arrivalMs;
    const line = `${name}: ${metric}: ${Number(paid) / 1e9}`;
    decision.beyond = Math.max(decision.beyond, seconds(beyond));
    if (beyond > nanosOf(rate, arrivalMs)) {
      Object.assign(decision, { over: `${line}: ${seconds(beyond)} s beyond the truth` });
    }
    if (neverReported) continue;
    decision.short = Math.max(decision.short, seconds(short));
    if (short <= nanosOf(rate, stated)) continue;
    const why = `${line}: ${seconds(short)} s short of the truth, uncertain by ${stated / 1000} s`;
    if (isBilledToWindowEnd(parts, paid, stated)) Object.assign(decision, { withoutEvent: why });
    else Object.assign(decision, { unsaid: why });
  }
  return decision;
}

/** Then the rest lies in windows of which it has no event. What begins without a time may be billed as much later as is said. */
function isBilledToWindowEnd(parts: readonly Stretch[], paid: bigint, statedMs: number): boolean {
  const [only, ...others] = parts;
  if (paid === 0n || only === undefined || others.length > 0) return paid === 0n;
  const billedMs = (Number(paid) / 1e9 / only.perHour) * 3_600_000;
  const windowOf = (at: number): number => Math.floor((at + billedMs) / WINDOW_MS);
  return windowOf(only.from.from - NEAR_MS) !== windowOf(only.from.to + statedMs + NEAR_MS);
}

function isUndated({ from, to }: Moment): boolean {
  return from !== to;
}

/** It came about after the operator had ended, and before it was started again. */
function isDown({ from, to }: Moment, blinds: readonly Blind[]): boolean {
  return blinds.some(({ down }) => down !== undefined && from >= down.from && to <= down.to);
}

function mostOf(parts: readonly Stretch[]): bigint {
  return parts.reduce(
    (sum, { perHour, from, to }) => sum + nanosOf(perHour, to.to - from.from),
    0n,
  );
}

function leastOf(parts: readonly Stretch[]): bigint {
  return parts.reduce(
    (sum, { perHour, from, to }) => sum + nanosOf(perHour, Math.max(0, to.from - from.to)),
    0n,
  );
}
