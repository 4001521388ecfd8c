import type { BillingDestinationStatus } from '../settings/custom-resources.generated.ts';
import type { Backlog, DestinationProblem } from '../delivery/destination-status.ts';
import type { DriftReport } from '../delivery/operations/drift-watch.ts';
import type { InvoiceReport } from '../delivery/operations/invoice-report.ts';
import type { PriceReport } from '../delivery/operations/price-watch.ts';
import type { Rate } from '../delivery/operations/rate-watch.ts';
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

/** Fewer failures in a row are ordinary retries, and would only make conditions flap. */
const FAILURES_TO_REPORT = 3;
const LONGEST_ERROR = 1024;
const LONGEST_EXAMPLE = 300;
/** The rest is over HTTP. */
const MOST_PARKED = 100;
const DAY_MS = 86_400_000;

/** What is known of a destination when its status is written. */
export interface DestinationFacts {
  readonly specStatus: SpecStatus;
  /** `spec.suspend`; what is in force follows it once its batch under way is through. */
  readonly suspended: boolean;
  /** Undefined while nothing feeds it. */
  readonly progress: DestinationProgress | undefined;
  /** What waits for it; undefined where it has no cursor. */
  readonly backlog?: Backlog | undefined;
}

/** `Ready`, `Bootstrapped`, `Delivering`, and what deserves attention while it holds (docs/reference/troubleshooting.md#conditions). */
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

/** `status.summary` of a destination as delivery knows it, which may have no custom resource. */
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

/** What an unusable destination will send. Figures go in powers of two: each change of a message is written to the API server. */
function backlogText({ windowEnd, bytes, fullInMs }: Backlog): string {
  const what =
    windowEnd === undefined
      ? 'everything from the oldest event on'
      : `windows from ${windowEnd} on`;
  const mib = bytes / MIB;
  const size = mib < 1 ? 'less than 1 MiB' : `more than ${2 ** Math.floor(Math.log2(mib))} MiB`;
  const text = `once it can be used it sends ${what}, for which the ledger keeps ${size}`;
  if (fullInMs === undefined) return text;
  const days = 2 ** Math.ceil(Math.log2(Math.max(1, fullInMs / DAY_MS)));
  return `${text}; the volume is full in less than ${days} ${days === 1 ? 'day' : 'days'}`;
}

/** Whether the engine knows by now how the destination is doing. */
export function isSettled({ specStatus, suspended, progress }: DestinationFacts): boolean {
  if (specStatus.kind === 'invalid' || suspended) return true;
  if (progress === undefined) return false;
  return progress.bootstrapped || progress.lastError !== undefined;
}

/** The fields of the status beside conditions and generation. */
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
  const tried = progress.blocked === undefined ? ', and it is tried for ever' : '';
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
      'nothing is sent until this is mended; it is tried every five minutes, and at once when the spec or a Secret changes',
    );
    return { type, status: 'False', reason: 'Held', message };
  }
  if (!progress.bootstrapped) return { ...bootstrappedClaim(facts), type };
  if (progress.consecutiveFailures >= FAILURES_TO_REPORT) {
    const message = because(progress.lastError, 'the last attempts failed, and it is tried again');
    return { type, status: 'False', reason: 'DeliveryFailing', message };
  }
  const settings = specStatus.kind === 'accepted' ? '' : ', by the last settings that were good';
  const message = `Events are delivered as windows close${settings}`;
  return { type, status: 'True', reason: 'Delivering', message };
}

/** What is claimed of a destination that nothing feeds: it cannot be, or not yet. */
function notFed(type: ConditionType, specStatus: SpecStatus): ConditionClaim {
  const bySpec = readyBySpec(specStatus);
  return bySpec === undefined ? starting(type) : { ...bySpec, type };
}

function starting(type: ConditionType): ConditionClaim {
  return { type, status: 'Unknown', reason: 'Starting', message: 'Delivery has not begun yet' };
}

/** The cause comes first, since that is what people read in a table: `HTTP POST /: connection refused; …`. */
function because(cause: string | undefined, effect: string): string {
  const first = cause?.slice(0, LONGEST_ERROR) ?? 'no cause is known';
  return `${first}; ${effect}`;
}

function billedUntil(savedUntil: number): string {
  return `what came so far is still billed by a price that is set before ${formatInstant(savedUntil)}`;
}

/**
 * What an operator should look at although delivery goes on: each claim is there only while it holds,
 * and its message says what to do (docs/reference/troubleshooting.md#conditions). Messages carry no counters; status fields do.
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
      message: `Events cannot be delivered as they are; GET /api/v1/destinations/${name}/dead-letters gives each with its reason, to be replayed or discarded`,
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
        'Events of the tenants in status.parkedTenants wait until the cause is mended; they are tried again by themselves, and other tenants are not held up',
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
        `spec.metrics names what is no metric here: ${codes}; mend the name (GET /api/v1/catalog lists them) or declare the metric. Until then it has no effect`.slice(
          0,
          LONGEST_ERROR,
        ),
    });
  }
  if (unpriced.length > 0) {
    const [first = { metric: '', plan: '' }] = unpriced;
    const { metric, sku, plan, savedUntil }: UnpricedUsage = first;
    const mend = savedUntil === undefined ? '' : `; ${billedUntil(savedUntil)}`;
    const usage = sku === undefined ? metric : `${metric} of "${sku}"`;
    claims.push({
      type: 'UnpricedUsage',
      status: 'True',
      reason: 'NoPrice',
      brief: `${usage} in plan "${plan}"`,
      message: `Usage came that nobody has priced, such as ${usage} in plan "${plan}"; set a price there${mend}`,
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
      message: `The billing system took usage and found later that it cannot bill it${such}: ${refusal.reason}; fix the cause there, then enter by hand what is still missing, since it counts as delivered`,
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
      message: `About ${needed} events a second come, and the billing system takes ${allowed}; have its limit raised to ${needed}, or make windows longer by COLLECTION_INTERVAL. Until then delivery falls behind, and nothing is lost`,
    });
  }
  return claims;
}

/** As text: where numbers of objects have fractions, writers and readers round them differently. */
function rateOf({ allowed, needed }: Rate) {
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
    message: `What the billing system has of ${from} differs from what it was given, such as ${metric} of tenant ${tenant} by ${difference}; GET /api/v1/reconcile?destination=${name}&from=${from}&to=${dateOf(day + DAY_MS)} shows every sum`,
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
    message: `The billing system has other prices than the PriceBooks: ${first}. GET /api/v1/destinations/${name}/plan has them all`,
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
      `Invoices differ from what was delivered, such as ${metric} of tenant ${tenant} by ${difference}${worth}: ${cause}; GET /api/v1/destinations has the largest twenty`.slice(
        0,
        LONGEST_ERROR,
      ),
  };
}
