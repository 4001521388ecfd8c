import { refusalOf, type RefusedRequest } from '../../intake/dead-letters.ts';
import type { AcceptOutcome } from '../../intake/admission.ts';
import type { Intake } from '../../intake/intake.ts';
import type { ReportedRequest } from '../../intake/reported-request.ts';
import type { ReportedBody } from '../../intake/read-reported.ts';
import { quote } from '../../model/validate-event.ts';
import type { IngestToken } from '../../settings/settings.ts';

type TokenScope = Pick<IngestToken, 'metrics' | 'tenants'>;

/** What became of the events of a gateway (docs/reference/openapi.yaml). */
export interface IntakeAnswer {
  readonly accepted: number;
  readonly repeated: number;
  /** Events without usage, or of a type without a rule. */
  readonly ignored: number;
  /** Events that cannot count, with their reasons. They are kept as dead letters. */
  readonly refused: readonly RefusedRequest[];
}

export type TakeOutcome =
  | { readonly kind: 'answered'; readonly answer: IntakeAnswer }
  | Exclude<AcceptOutcome, { kind: 'taken' }>;

/**
 * Durably takes the events of one body. An event that cannot count, or that the token does not
 * allow, never keeps the others out: gateways drop the whole batch then.
 */
export async function takeGatewayEvents(
  { requests, refused, ignored }: Extract<ReportedBody, { kind: 'reported' }>,
  { client, scope }: { readonly client: string; readonly scope: TokenScope },
  intake: Pick<Intake, 'accept'>,
): Promise<TakeOutcome> {
  const allowed: ReportedRequest[] = [];
  const kept = [...refused];
  for (const request of requests) {
    const reason = beyondScope(request, scope);
    if (reason === undefined) allowed.push(request);
    else kept.push(refusalOf(request, reason));
  }
  if (allowed.length + kept.length === 0) return answered(0, 0, ignored, []);
  const outcome = await intake.accept(allowed, client, kept);
  if (outcome.kind !== 'taken') return outcome;
  const counts = { accepted: 0, repeated: 0 };
  for (const [index, request] of allowed.entries()) {
    const reception = outcome.receptions[index];
    if (reception?.kind === 'refused') kept.push(refusalOf(request, reception.reason));
    else if (reception !== undefined) counts[reception.kind] += 1;
  }
  return answered(counts.accepted, counts.repeated, ignored, kept);
}

function answered(
  accepted: number,
  repeated: number,
  ignored: number,
  refused: readonly RefusedRequest[],
): TakeOutcome {
  return { kind: 'answered', answer: { accepted, repeated, ignored, refused } };
}

/** Why the token does not allow a request; undefined when it does. */
function beyondScope(
  { tenant, quantities }: ReportedRequest,
  { metrics, tenants }: TokenScope,
): string | undefined {
  if (tenants?.includes(tenant) === false) return `token not for this tenant: ${quote(tenant)}`;
  const other = quantities.find(({ metric }) => metrics?.includes(metric) === false);
  return other && `token not for this metric: ${quote(other.metric)}`;
}
