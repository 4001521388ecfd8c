import { formatInstant } from '../model/window.ts';
import type { ConditionClaim } from './conditions.ts';
import { attentionClaims } from './destination-attention.ts';
import type { BillingDestinationStatus } from '../config/custom-resources.generated.ts';
import { readyBySpec, stalledClaims, type Verdict } from './verdict.ts';
import type { DestinationProgress } from './views.ts';

/** Fewer failures in a row are ordinary retries, and would only make conditions flap. */
const FAILURES_TO_REPORT = 3;
const LONGEST_ERROR = 1024;
/** The rest is over HTTP. */
const MOST_PARKED = 100;

/** What is known of a destination when its status is written. */
export interface DestinationFacts {
  readonly verdict: Verdict;
  readonly suspended: boolean;
  /** Undefined while nothing feeds it. */
  readonly progress: DestinationProgress | undefined;
}

/** `Ready`, `Bootstrapped`, `Delivering`, and what deserves attention while it holds (design 4). */
export function destinationClaims(facts: DestinationFacts): readonly ConditionClaim[] {
  const bootstrapped = bootstrappedClaim(facts);
  const delivering = deliveringClaim(facts);
  const ready = readyBySpec(facts.verdict) ?? {
    ...(bootstrapped.status === 'True' || facts.suspended ? delivering : bootstrapped),
    type: 'Ready',
  };
  return [
    ready,
    bootstrapped,
    delivering,
    ...attentionClaims(facts.progress),
    ...stalledClaims(facts.verdict),
  ];
}

/** Whether the engine knows by now how the destination is doing. */
export function isSettled({ verdict, suspended, progress }: DestinationFacts): boolean {
  if (verdict.kind === 'invalid' || suspended) return true;
  if (progress === undefined) return false;
  return progress.bootstrapped || progress.lastError !== undefined;
}

/** The fields of the status beside conditions and generation. */
export function destinationNumbers(
  progress: DestinationProgress | undefined,
): BillingDestinationStatus {
  if (progress === undefined) return {};
  const { cursor, windowEnd, lagEvents, lagSeconds, lastSuccessAt, lastError } = progress;
  const parked = progress.parkedTenants.toSorted((a, b) => (a.tenant < b.tenant ? -1 : 1));
  return {
    cursor: { sequence: cursor, ...(windowEnd === undefined ? {} : { windowEnd }) },
    lag: { events: lagEvents, seconds: Math.round(lagSeconds) },
    delivered: progress.delivered,
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
    ...(lastSuccessAt === undefined ? {} : { lastDeliveryTime: formatInstant(lastSuccessAt) }),
    ...(lastError === undefined ? {} : { lastError: lastError.slice(0, LONGEST_ERROR) }),
  };
}

function bootstrappedClaim({ progress }: DestinationFacts): ConditionClaim {
  const type = 'Bootstrapped';
  if (progress === undefined) return starting(type);
  if (progress.bootstrapped) {
    const message = 'The billing system has what it needs';
    return { type, status: 'True', reason: 'Bootstrapped', message };
  }
  if (progress.lastError === undefined) return starting(type);
  const message = 'The billing system could not be prepared yet; status.lastError says why';
  return { type, status: 'False', reason: 'NotBootstrapped', message };
}

function deliveringClaim(facts: DestinationFacts): ConditionClaim {
  const { suspended, progress } = facts;
  const type = 'Delivering';
  if (suspended) {
    const message = 'Delivery is suspended by spec.suspend';
    return { type, status: 'False', reason: 'Suspended', message };
  }
  if (progress === undefined) return starting(type);
  if (progress.held === undefined && !progress.bootstrapped) {
    return { ...bootstrappedClaim(facts), type };
  }
  if (progress.held !== undefined) {
    const message =
      'Nothing is sent until the cause in status.lastError is mended; it is tried every five minutes, and at once when the spec or a Secret changes';
    return { type, status: 'False', reason: 'Held', message };
  }
  if (progress.consecutiveFailures >= FAILURES_TO_REPORT) {
    const message = 'The last attempts failed; status.lastError says why';
    return { type, status: 'False', reason: 'DeliveryFailing', message };
  }
  const message = 'Events are delivered as windows close';
  return { type, status: 'True', reason: 'Delivering', message };
}

function starting(type: string): ConditionClaim {
  return { type, status: 'Unknown', reason: 'Starting', message: 'Delivery has not begun yet' };
}
