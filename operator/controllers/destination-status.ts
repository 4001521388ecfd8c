import type { BillingDestinationStatus } from '../settings/custom-resources.generated.ts';
import type { Backlog, DestinationProblem } from '../delivery/destination-status.ts';
import type { DriftReport } from '../delivery/operations/drift-watch.ts';
import type { InvoiceReport } from '../delivery/operations/invoice-report.ts';
import type { PriceReport } from '../delivery/operations/price-watch.ts';
import type { EventRate } from '../delivery/operations/rate-watch.ts';
import type { UnpricedUsage } from '../destinations/prices.ts';
import { formatInstant } from '../model/window.ts';
import {
  type ConditionClaim,
  type ConditionType,
  readyBySpec,
  type SpecStatus,
  stalledClaims,
} from './conditions.ts';
import { summaryOf } from './summary.ts';
import type { DestinationProgress } from './views.ts';

/** Failures in a row before a condition reports them. Fewer are ordinary retries. */
const FAILURES_TO_REPORT = 3;
const LONGEST_ERROR = 1024;
const LONGEST_EXAMPLE = 300;
/** Most parked tenants in the status. HTTP returns all of them. */
const MOST_PARKED = 100;
const DAY_MS = 86_400_000;

/** The facts about a destination for its status. */
export interface DestinationFacts {
  readonly specStatus: SpecStatus;
  /** `spec.suspend`. Delivery follows after the current batch. */
  readonly suspended: boolean;
  /** Undefined while nothing feeds it. */
  readonly progress: DestinationProgress | undefined;
  /** The events that wait for it; undefined without a cursor. */
  readonly backlog?: Backlog;
}

/**
 * Returns the conditions `Ready`, `Bootstrapped` and `Delivering`, and those that need attention
 * (docs/reference/troubleshooting.md#conditions).
 */
export function destinationClaims(facts: DestinationFacts): readonly ConditionClaim[] {
  const bootstrapped = bootstrappedClaim(facts);
  const delivering = deliveringClaim(facts);
  const ready = readyBySpec(facts.specStatus) ?? { ...delivering, type: 'Ready' };
  return [
    ready,
    bootstrapped,
    delivering,
    ...attentionClaims(facts.progress),
    ...stalledClaims(facts.specStatus, facts.backlog && backlogText(facts.backlog)),
  ];
}

/** Returns `status.summary` of a destination, which may have no custom resource. */
export function destinationSummary(
  progress: DestinationProgress & { readonly problem?: DestinationProblem },
): string {
  const { problem, suspended } = progress;
  const specStatus: SpecStatus =
    problem === undefined ? { kind: 'accepted' } : { kind: 'invalid', ...problem };
  const fed = problem?.inForce === false ? undefined : progress;
  return summaryOf(destinationClaims({ specStatus, suspended, progress: fed }));
}

const MIB = 1024 ** 2;

/**
 * Returns a text about the waiting events of an unusable destination. Figures are powers of two,
 * because each change of a message is written to the API server.
 */
function backlogText({ windowEnd, bytes, fullInMs }: Backlog): string {
  const what =
    windowEnd === undefined
      ? 'everything from the oldest event on'
      : `windows from ${windowEnd} on`;
  const mib = bytes / MIB;
  const size = mib < 1 ? 'less than 1 MiB' : `more than ${2 ** Math.floor(Math.log2(mib))} MiB`;
  const text = `once it is usable it sends ${what}, ${size} in the ledger`;
  if (fullInMs === undefined) return text;
  const days = 2 ** Math.ceil(Math.log2(Math.max(1, fullInMs / DAY_MS)));
  return `${text}; the volume is full in less than ${days} ${days === 1 ? 'day' : 'days'}`;
}

/** Returns whether the engine knows the state of the destination. */
export function isSettled({ specStatus, suspended, progress }: DestinationFacts): boolean {
  if (specStatus.kind === 'invalid' || suspended) return true;
  if (progress === undefined) return false;
  return progress.bootstrapped || progress.lastError !== undefined;
}

/** Returns the fields of the status beside conditions and generation. */
export function destinationFields(
  progress: DestinationProgress | undefined,
): BillingDestinationStatus {
  if (progress === undefined) return {};
  const {
    cursor,
    cursorWindowEnd: windowEnd,
    lagEvents,
    lagSeconds,
    lastSuccessAt,
    lastError,
  } = progress;
  const parked = progress.parkedTenants.toSorted((a, b) => (a.tenant < b.tenant ? -1 : 1));
  return {
    cursor: { sequence: cursor, windowEnd },
    lag: { events: lagEvents, seconds: Math.round(lagSeconds) },
    delivered: progress.delivered,
    ...(progress.rate && { rate: rateOf(progress.rate) }),
    deadLetters: progress.deadLetters,
    parkedTenants: {
      total: parked.length,
      items: parked.slice(0, MOST_PARKED).map(({ tenant, reason, events, since }) => ({
        tenant,
        reason: reason.slice(0, LONGEST_ERROR),
        events,
        since: formatInstant(since),
      })),
    },
    ...(progress.planChanges.length > 0 && {
      planChanges: progress.planChanges.map(({ tenant, from, to, at, problem }) => ({
        tenant,
        from,
        to,
        at: formatInstant(at),
        problem: problem?.slice(0, LONGEST_ERROR),
      })),
    }),
    ...(lastSuccessAt === undefined ? {} : { lastDeliveryTime: formatInstant(lastSuccessAt) }),
    lastError: lastError?.slice(0, LONGEST_ERROR),
  };
}

function bootstrappedClaim({ specStatus, progress }: DestinationFacts): ConditionClaim {
  const type = 'Bootstrapped';
  if (progress === undefined) return notFed(type, specStatus);
  if (progress.bootstrapped) {
    const message = 'The billing system has what it needs';
    return { type, status: 'True', reason: 'Bootstrapped', message };
  }
  if (progress.lastError === undefined) return starting(type);
  const tried = progress.blocked === undefined ? ', and it is retried without end' : '';
  const message = because(progress.lastError, `the billing system is not prepared yet${tried}`);
  return { type, status: 'False', reason: 'NotBootstrapped', message };
}

function deliveringClaim(facts: DestinationFacts): ConditionClaim {
  const { specStatus, suspended, progress } = facts;
  const type = 'Delivering';
  if (progress?.suspended ?? suspended) {
    const message = 'Delivery is suspended by spec.suspend';
    return { type, status: 'False', reason: 'Suspended', message };
  }
  if (progress === undefined) return notFed(type, specStatus);
  if (progress.blocked !== undefined) {
    const message = because(
      progress.blocked,
      'nothing is sent until this is fixed; it is retried every five minutes, and at once after a change of the spec or a Secret',
    );
    return { type, status: 'False', reason: 'Blocked', message };
  }
  if (!progress.bootstrapped) return { ...bootstrappedClaim(facts), type };
  if (progress.consecutiveFailures >= FAILURES_TO_REPORT) {
    const message = because(progress.lastError, 'the last attempts failed, and it is retried');
    return { type, status: 'False', reason: 'DeliveryFailing', message };
  }
  const settings = specStatus.kind === 'accepted' ? '' : ', with the last valid settings';
  const message = `Events are delivered as windows close${settings}`;
  return { type, status: 'True', reason: 'Delivering', message };
}

/** Returns a condition of a destination without a feeder: its spec is unusable, or it starts. */
function notFed(type: ConditionType, specStatus: SpecStatus): ConditionClaim {
  const bySpec = readyBySpec(specStatus);
  return bySpec === undefined ? starting(type) : { ...bySpec, type };
}

function starting(type: ConditionType): ConditionClaim {
  return { type, status: 'Unknown', reason: 'Starting', message: 'Delivery has not begun yet' };
}

/** Puts the cause first, as people read it in a table: `HTTP POST /: connection refused; …`. */
function because(cause: string | undefined, effect: string): string {
  const first = cause?.slice(0, LONGEST_ERROR) ?? 'no cause is known';
  return `${first}; ${effect}`;
}

function billedUntil(savedUntil: number): string {
  return `a price that is set before ${formatInstant(savedUntil)} still bills the usage so far`;
}

/**
 * Returns the conditions that need attention although delivery continues
 * (docs/reference/troubleshooting.md#conditions). Each message says what to do. Messages contain no
 * counters; status fields do.
 */
function attentionClaims(progress: DestinationProgress | undefined): readonly ConditionClaim[] {
  if (progress === undefined) return [];
  const claims: ConditionClaim[] = [];
  const { name, deadLetters, parkedTenants, unknownMetrics, unpriced, lateRefusals } = progress;
  if (deadLetters > 0) {
    claims.push({
      type: 'DeadLetters',
      status: 'True',
      reason: 'EventsRefused',
      brief: 'events refused for good',
      message: `Some events cannot be delivered; GET /api/v1/destinations/${name}/dead-letters lists each with its reason; replay or discard them`,
    });
  }
  const [parked] = parkedTenants;
  if (parked !== undefined) {
    claims.push({
      type: 'TenantsParked',
      status: 'True',
      reason: 'TenantRefused',
      brief: `tenant "${parked.tenant}": ${parked.reason}`,
      message:
        'Events of the tenants in status.parkedTenants wait until the cause is fixed; they are retried automatically, and other tenants are not delayed',
    });
  }
  if (unknownMetrics.length > 0) {
    const codes = unknownMetrics.map((code) => `"${code}"`).join(', ');
    claims.push({
      type: 'UnknownMetrics',
      status: 'True',
      reason: 'NotInCatalogue',
      brief: `${codes} in spec.metrics`,
      message:
        `spec.metrics names unknown metrics: ${codes}; fix the name (GET /api/v1/catalog lists all metrics) or declare the metric. Until then it has no effect`.slice(
          0,
          LONGEST_ERROR,
        ),
    });
  }
  if (unpriced.length > 0) {
    const [first = { metric: '', plan: '' }] = unpriced;
    const { metric, sku, plan, savedUntil }: UnpricedUsage = first;
    const deadline = savedUntil === undefined ? '' : `; ${billedUntil(savedUntil)}`;
    const usage = sku === undefined ? metric : `${metric} of "${sku}"`;
    claims.push({
      type: 'UnpricedUsage',
      status: 'True',
      reason: 'NoPrice',
      brief: `${usage} in plan "${plan}"`,
      message: `Usage without a price arrived, such as ${usage} in plan "${plan}"; set a price there${deadline}`,
    });
  }
  const [refusal] = lateRefusals;
  if (refusal !== undefined) {
    const such = refusal.example === undefined ? '' : `, such as event ${refusal.example}`;
    claims.push({
      type: 'LateRefusals',
      status: 'True',
      reason: 'UsageNotBilled',
      brief: refusal.reason,
      message: `The billing system accepted usage that it cannot bill${such}: ${refusal.reason}; fix the cause there, then enter the missing usage by hand, because it counts as delivered`,
    });
  }
  const drift = progress.drift && driftClaim(name, progress.drift);
  if (drift !== undefined) claims.push(drift);
  const prices = progress.prices && pricesClaim(name, progress.prices);
  if (prices !== undefined) claims.push(prices);
  const invoices = progress.invoices && invoiceClaim(progress.invoices);
  if (invoices !== undefined) claims.push(invoices);
  if (progress.tooSlow !== undefined) {
    const { allowed, needed } = progress.tooSlow;
    claims.push({
      type: 'RateLimitTooLow',
      status: 'True',
      reason: 'UsageComesFaster',
      message: `About ${needed} events a second arrive, and the billing system accepts ${allowed}; have its limit raised to ${needed}, or make windows longer with COLLECTION_INTERVAL. Until then delivery falls behind, and nothing is lost`,
    });
  }
  return claims;
}

/** Returns the rate as text, because JSON readers and writers round fractions differently. */
function rateOf({ allowed, needed }: EventRate) {
  const headroom = Math.max(0, Math.round((allowed - needed) * 10) / 10);
  return { inUse: String(needed), limit: String(allowed), headroom: String(headroom) };
}

function driftClaim(name: string, { day, examples }: DriftReport): ConditionClaim | undefined {
  const [first] = examples;
  if (first === undefined) return undefined;
  const dateOf = (ms: number): string => new Date(ms).toISOString().slice(0, 10);
  const from = dateOf(day);
  const { tenant, metric, difference } = first;
  return {
    type: 'Drift',
    status: 'True',
    reason: 'SumsDiffer',
    brief: `${metric} of tenant ${tenant} by ${difference}`,
    message: `The billing system's sums of ${from} differ from the delivered usage, such as ${metric} of tenant ${tenant} by ${difference}; GET /api/v1/reconcile?destination=${name}&from=${from}&to=${dateOf(day + DAY_MS)} shows every sum`,
  };
}

function pricesClaim(name: string, { examples }: PriceReport): ConditionClaim | undefined {
  if (examples.length === 0) return undefined;
  const first = examples.map((example) => example.slice(0, LONGEST_EXAMPLE)).join('; ');
  return {
    type: 'PricesDiffer',
    status: 'True',
    reason: 'NotAsPriceBook',
    brief: 'other prices than the PriceBooks',
    message: `Prices at the billing system differ from the PriceBooks: ${first}. GET /api/v1/destinations/${name}/plan lists all`,
  };
}

function invoiceClaim({ examples }: InvoiceReport): ConditionClaim | undefined {
  const [first] = examples;
  if (first === undefined) return undefined;
  const { tenant, metric, difference, amount, cause } = first;
  const worth = amount === undefined ? '' : ` (about ${amount.value} ${amount.currency})`;
  return {
    type: 'InvoiceMismatch',
    status: 'True',
    reason: 'InvoicesDiffer',
    brief: `${metric} of tenant ${tenant} by ${difference}${worth}`,
    message:
      `Invoices differ from the delivered usage, such as ${metric} of tenant ${tenant} by ${difference}${worth}: ${cause}; GET /api/v1/destinations lists the twenty largest`.slice(
        0,
        LONGEST_ERROR,
      ),
  };
}
