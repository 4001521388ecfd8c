import type { Response } from 'express';
import type { DriftReport } from '../../delivery/operations/drift-watch.ts';
import type { InvoiceReport } from '../../delivery/operations/invoice-report.ts';
import type { PriceReport } from '../../delivery/operations/price-watch.ts';
import type { EventRate } from '../../delivery/operations/rate-watch.ts';
import { encodeEvent } from '../../model/event.ts';
import { isoTime } from '../presentation.ts';
import type { DeadLetter, DestinationStatusView, DestinationsView } from '../views.ts';

/** Each destination's state, with field names of the earlier release; without unset fields. */
export function showDestinations(
  view: Pick<DestinationsView, 'list' | 'summaryOf'>,
  committed: number,
) {
  return view.list().map((status) => showDestination(status, view.summaryOf(status), committed));
}

function showDestination(status: DestinationStatusView, summary: string, committed: number) {
  return {
    name: status.name,
    type: status.type,
    summary,
    ready: status.ready,
    suspended: status.suspended,
    bootstrapped: status.bootstrapped,
    blocked: status.blocked,
    problem: status.problem && {
      reason: status.problem.reason,
      message: status.problem.message,
      in_force: status.problem.inForce,
    },
    cursor: status.cursor,
    cursor_window_end: status.cursorWindowEnd,
    committed,
    lag_records: status.lagEvents,
    lag_seconds: status.lagSeconds,
    delivered_events: status.delivered,
    skipped_events: status.skipped,
    dead_letters: status.deadLetters,
    parked_events: status.parked,
    parked_tenants: status.parkedTenants.map(({ since, ...parked }) => ({
      ...parked,
      since: isoTime(since),
    })),
    offboarding_tenants: status.offboarding,
    plan_changes: status.planChanges.map(({ at, since, ...change }) => ({
      ...change,
      at: isoTime(at),
      since: isoTime(since),
    })),
    unknown_metrics: status.unknownMetrics,
    unpriced: status.unpriced.map(({ atStake, savedUntil, ...usage }) => ({
      ...usage,
      at_stake: atStake,
      saved_until: isoTime(savedUntil),
    })),
    late_refusals: status.lateRefusals.map(({ at, ...refusal }) => ({
      at: isoTime(at),
      ...refusal,
    })),
    drift: status.drift && showDrift(status.drift),
    prices: status.prices && showPrices(status.prices),
    invoices: status.invoices && showInvoices(status.invoices),
    rate: status.rate && showRate(status.rate),
    rate_limit: status.tooSlow && {
      events_per_second: status.tooSlow.allowed,
      needed_events_per_second: status.tooSlow.needed,
    },
    consecutive_failures: status.consecutiveFailures,
    last_success: isoTime(status.lastSuccessAt),
    last_error: status.lastError,
    last_error_at: isoTime(status.lastErrorAt),
  };
}

function showRate({ allowed, needed }: EventRate) {
  const headroom = Math.max(0, Math.round((allowed - needed) * 10) / 10);
  return { events_per_second: needed, limit: allowed, headroom };
}

function showDrift({ day, comparedAt, compared, unanswered, differing, examples }: DriftReport) {
  return {
    day: new Date(day).toISOString().slice(0, 10),
    compared_at: isoTime(comparedAt),
    compared_rows: compared,
    unanswered_rows: unanswered,
    differing_rows: differing,
    examples: examples.map(({ difference, ...row }) => ({
      ...row,
      difference: Number(difference),
    })),
  };
}

/** How its prices compare with the price books; the first three differences as text. */
export function showPrices({ differing, examples }: PriceReport) {
  return { differing, examples };
}

function showInvoices(report: InvoiceReport) {
  const { comparedAt, tenants, unanswered, problem, differing, examples } = report;
  return {
    compared_at: isoTime(comparedAt),
    tenants,
    unanswered_tenants: unanswered,
    problem,
    differing_rows: differing,
    examples: examples.map(({ difference, until, ...row }) => ({
      ...row,
      difference: Number(difference),
      until: isoTime(until),
    })),
  };
}

/** Sends a page of dead letters. Writes the JSON itself, because quantities are exact. */
export function sendDeadLetters(
  response: Response,
  destination: string,
  letters: readonly DeadLetter[],
  next: number | undefined,
): void {
  const items = letters.map(({ sequence, at, reason, event, unansweredSince }) => {
    const unanswered_since = isoTime(unansweredSince);
    const stored = { sequence, at: isoTime(at), reason, unanswered_since };
    const rest = JSON.stringify(stored);
    return `${rest.slice(0, -1)},"event":${encodeEvent(event)}}`;
  });
  const head = JSON.stringify({ destination, next });
  response
    .type('application/json')
    .send(`${head.slice(0, -1)},"dead_letters":[${items.join(',')}]}\n`);
}
