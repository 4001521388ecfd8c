import type { AccessAnswer } from '../../intake/access-check.ts';
import { TOKENS } from '../../intake/mapping.ts';
import { isRecord } from '../../model/is-record.ts';
import { quote } from '../../model/validate-event.ts';
import { ingestScope } from '../access.ts';
import type { ConcurrencyLimit, IngestRate } from '../limits.ts';
import { isoTime } from '../presentation.ts';
import { badRequest, Problem } from '../problem.ts';
import { readQuery } from '../query.ts';
import { readBody, readFields, refuseOthers } from '../request-body.ts';
import type { Route, RouteContext } from '../route.ts';
import { checkAccess, questionAbout } from './access.ts';

/** Bounds of one request: OpenMeter's customers; fewer features, so that the answer is quick. */
const MAX_CUSTOMERS = 100;
const MAX_FEATURES = 10;
const MAX_BODY_BYTES = 128 * 1024;

const FIELDS = ['include_credits', 'customer', 'feature'] as const;
const EXAMPLE = '{"customer": {"keys": ["acme"]}, "feature": {"keys": ["tokens"]}}';

/**
 * POST /api/v3/openmeter/entitlement-access/query: OpenMeter's answers about a list of customers,
 * which Kong polls (docs/how-to/ai-gateways.md#the-poll-of-kong). Off by default, because
 * OpenMeter's `api/v3/openapi.yaml` marks this operation as unstable.
 */
export function accessQueryRoute(
  { views, clock }: RouteContext,
  rate: IngestRate,
  memory: ConcurrencyLimit,
): Route {
  return {
    method: 'post',
    path: '/api/v3/openmeter/entitlement-access/query',
    access: 'access',
    hub: 'refused',
    summary: 'the same about many tenants, as OpenMeter answers it',
    handlers: [
      (request, response, next) => {
        if (!views.settings().ingest.entitlementAccessQuery) throw switchedOff();
        // One page has all customers, whatever its size.
        readQuery(request, ['page[size]']);
        rate.take(request, response);
        next();
      },
      readBody({ maxBytes: MAX_BODY_BYTES, memory }),
      (request, response) => {
        const { customer, feature } = readFields(request.body, FIELDS, EXAMPLE);
        const customers = keysOf('customer', customer, MAX_CUSTOMERS);
        const features =
          feature === undefined ? [TOKENS] : keysOf('feature', feature, MAX_FEATURES);
        rate.take(request, response, customers.length * features.length - 1);
        const { tenants } = ingestScope(response);
        const data: object[] = [];
        const errors: object[] = [];
        for (const key of customers) {
          const questions = features.map((name) => questionAbout(views, key, name));
          // One customer beyond the token's scope must not stop the poll for the others.
          if (questions.some(({ tenant }) => tenants?.includes(tenant) === false)) {
            errors.push({ code: 'customer_not_found', message: 'beyond the token', customer: key });
            continue;
          }
          const answers = questions.map((question) => checkAccess(views, question));
          const [{ tenant } = { tenant: key }] = questions;
          data.push({
            matched: [key],
            customer: { id: tenant, key: tenant, name: tenant },
            features: Object.fromEntries(answers.map((one, at) => [features[at], showAccess(one)])),
            updated_at: isoTime(clock.now() - Math.max(...answers.map(({ staleMs }) => staleMs))),
          });
        }
        const page = { size: MAX_CUSTOMERS, next: null, previous: null };
        response.json({ data, errors, meta: { page } });
      },
    ],
  };
}

function switchedOff(): Problem {
  const fix = 'set spec.ingest.entitlementAccessQuery of the MeteringPolicy';
  return new Problem(404, `not available: it is switched off: ${fix}`);
}

/** An unknown tenant has access, without the reason that OpenMeter does not know. */
function showAccess({ hasAccess, reason }: AccessAnswer) {
  if (hasAccess) return { has_access: true };
  const code = reason === 'suspended' ? 'feature_unavailable' : 'usage_limit_reached';
  return { has_access: false, reason: { code, message: reason ?? code } };
}

function keysOf(field: string, value: unknown, most: number): readonly string[] {
  if (isRecord(value)) refuseOthers(value, ['keys']);
  const keys: unknown = isRecord(value) ? value['keys'] : undefined;
  const fix = `send 1 to ${most} texts`;
  if (!Array.isArray(keys) || !keys.every((key) => typeof key === 'string')) {
    throw badRequest(`not a list of texts: ${field}.keys: ${quote(keys)}: ${fix}`);
  }
  if (keys.length > 0 && keys.length <= most) return [...new Set(keys)];
  throw badRequest(`too few or too many keys: ${field}.keys: ${keys.length}: ${fix}`);
}
