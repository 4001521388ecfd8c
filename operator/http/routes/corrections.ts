import pLimit from 'p-limit';
import type { Request } from 'express';
import type { CorrectionPrediction } from '../../delivery/operations/correction-prediction.ts';
import type { Ledger, StoredEvent } from '../../ledger/ledger.ts';
import { NumberText } from '../../model/complete-event.ts';
import {
  correctionId,
  type CorrectionNote,
  correctionOf,
  isCorrection,
} from '../../model/correction.ts';
import {
  type Decimal,
  losesDigits,
  nanosFromDecimal,
  roundToDecimal,
  signedFromNanos,
} from '../../model/decimal.ts';
import { EVENT_LIMITS } from '../../model/event-schema.ts';
import { encodeEvent, type UsageEvent } from '../../model/event.ts';
import { quote } from '../../model/validate-event.ts';
import { ofOperator } from '../fleet/dispatch.ts';
import type { ConcurrencyLimit, Scans } from '../limits.ts';
import { jsonWithDecimals } from '../presentation.ts';
import { badRequest, Problem, tryLater } from '../problem.ts';
import { pathParameter, readQuery } from '../query.ts';
import { readBody, readFields } from '../request-body.ts';
import type { Route, RouteContext } from '../route.ts';

const MAX_BODY_BYTES = 4 * 1024;
const MAX_QUANTITY_NANOS = BigInt(EVENT_LIMITS.quantity) * 1_000_000_000n;
/** Corrections of one event. All of them are read to compute its current quantity. */
const MOST_CORRECTIONS = 100;
const LONGEST_TEXT = 256;
const CORRECT_THE_EVENT = 'correct the event that its property "corrects" names, once more';
const CLEAN_TEXT = /^[^\p{Cc}\p{Cs}\u2028\u2029]+$/u;

/**
 * GET and POST /api/v1/events/{id}/corrections: the current quantity of an event, and correcting it
 * (docs/reference/events.md#corrections).
 */
export function correctionRoutes(
  context: RouteContext,
  memory: ConcurrencyLimit,
  scans: Scans,
): readonly Route[] {
  return [readRoute(context, scans), writeRoute(context, memory, scans)];
}

function readRoute(context: RouteContext, scans: Scans): Route {
  const { ledger, views } = context;
  return {
    method: 'get',
    path: '/api/v1/events/{id}/corrections',
    access: 'read',
    hub: 'refused',
    summary: 'what an event counts as, and what would become of a correction',
    handlers: [
      async (request, response) => {
        readQuery(request, []);
        const id = pathParameter(request, 'id');
        scans.hold(response);
        const stored = await findStored(ledger, id);
        const { earlier, nanos } = await countOf(ledger, stored.event);
        const refused = refusalOf(context, stored.event, earlier.length);
        const operations = ofOperator(views.destinations.operations);
        const destinations = await Promise.all(
          views.destinations.list().map(async ({ name, suspended }) => {
            const predicted = await operations.predictCorrection(name, stored);
            return predicted === undefined
              ? []
              : [{ name, suspended, ...showPrediction(predicted) }];
          }),
        );
        const rest = { refused, destinations: destinations.flat() };
        // The quantities are exact decimals, which JSON.stringify would turn into texts.
        const events = `"event":${encodeEvent(stored.event)},"corrections":[${earlier.map(encodeEvent).join(',')}]`;
        const body = jsonWithDecimals(rest, { counts_as: signedFromNanos(nanos) });
        response.type('application/json').send(`{${events},${body.slice(1)}\n`);
      },
    ],
  };
}

function showPrediction({ state, takesNegative }: CorrectionPrediction) {
  return { state, takes_negative: takesNegative };
}

/** Why an event cannot be corrected; undefined when it can. */
function refusalOf(
  { views }: RouteContext,
  event: UsageEvent,
  corrections: number,
): string | undefined {
  const { http } = views.settings();
  if (isCorrection(event)) return CORRECT_THE_EVENT;
  if (corrections >= MOST_CORRECTIONS) return `it was corrected ${MOST_CORRECTIONS} times`;
  if (http.apiTokens.length > 0 || http.apiTokenFile !== undefined) return undefined;
  return 'changes need a token, and the operator has none: set API_TOKEN';
}

function writeRoute(context: RouteContext, memory: ConcurrencyLimit, scans: Scans): Route {
  /** Runs one correction at a time: the quantity must not change between read and write. */
  const inOrder = pLimit(1);
  return {
    method: 'post',
    path: '/api/v1/events/{id}/corrections',
    access: 'change',
    hub: 'refused',
    summary: 'make an event count as another quantity, or as nothing',
    handlers: [
      readBody({ maxBytes: MAX_BODY_BYTES, memory }),
      async (request, response) => {
        readQuery(request, []);
        const id = pathParameter(request, 'id');
        const wanted = readBodyOf(request);
        scans.hold(response);
        const { event, before } = await inOrder(() => correct(context, id, wanted));
        const body = jsonWithDecimals(
          { corrects: id, ...(event !== undefined && { id: event.id }) },
          { before, after: wanted.quantity, difference: event?.quantity ?? '0' },
        );
        response.type('application/json').send(`${body}\n`);
      },
    ],
  };
}

interface Wanted extends CorrectionNote {
  readonly quantity: Decimal;
}

/** Appends the difference as an event; none if the event counts as the wanted quantity. */
async function correct(
  { ledger, clock, logger }: RouteContext,
  id: string,
  wanted: Wanted,
): Promise<{ readonly event?: UsageEvent; readonly before: string }> {
  const stored = await findStored(ledger, id);
  if (isCorrection(stored.event)) {
    throw new Problem(409, `a correction itself: id: ${quote(id)}: ${CORRECT_THE_EVENT}`);
  }
  const { earlier, nanos } = await countOf(ledger, stored.event);
  const before = signedFromNanos(nanos);
  const difference = nanosFromDecimal(wanted.quantity) - nanos;
  if (difference === 0n) return { before };
  if (earlier.length >= MOST_CORRECTIONS) {
    throw new Problem(
      409,
      `corrected ${MOST_CORRECTIONS} times: id: ${quote(id)}: nothing was changed`,
    );
  }
  const recordedAt = new Date(clock.now()).toISOString();
  const event = correctionOf(stored, earlier.length + 1, difference, recordedAt, wanted);
  const outcome = await ledger.append({ events: [event] });
  if (outcome.kind === 'failed') {
    throw tryLater(503, 5, `ledger write failed: ${outcome.message}: nothing was recorded`);
  }
  const { author, reason, quantity } = wanted;
  const fields = { id, correction: event.id, before, after: quantity, author, reason };
  // What an operator does by hand is always in the log.
  logger.info('[http] an operator corrected an event', fields);
  return { event, before };
}

/** The corrections of an event, the oldest first, and its quantity with them in nanos. */
async function countOf(
  ledger: Ledger,
  event: UsageEvent,
): Promise<{ readonly earlier: readonly UsageEvent[]; readonly nanos: bigint }> {
  const earlier: UsageEvent[] = [];
  let nanos = nanosFromDecimal(event.quantity);
  while (earlier.length < MOST_CORRECTIONS) {
    const next = await ledger.find(correctionId(event.id, earlier.length + 1));
    if (next === undefined) break;
    earlier.push(next);
    nanos += nanosFromDecimal(next.quantity);
  }
  return { earlier, nanos };
}

async function findStored(ledger: Ledger, id: string): Promise<StoredEvent> {
  const event = await ledger.find(id);
  if (event !== undefined) {
    const from = Date.parse(event.window_start);
    for await (const stored of ledger.scan(from, from + 1)) {
      if (stored.event.id === id) return stored;
    }
  }
  const fix = 'rename or discard held usage instead, see /api/v1/held-tenants';
  throw new Problem(404, `no such event, or no longer kept: id: ${quote(id)}: ${fix}`);
}

function readBodyOf(request: Request): Wanted {
  const example = '{"quantity": 0, "reason": "…", "author": "…"}';
  const fields = readFields(request.body, ['quantity', 'reason', 'author'], example);
  return {
    quantity: readQuantity(fields.quantity),
    reason: readText(fields.reason, 'reason'),
    author: readText(fields.author, 'author'),
  };
}

function readQuantity(value: unknown): Decimal {
  const text = value instanceof NumberText ? value.text : String(value);
  const isNumber = typeof value === 'number' || value instanceof NumberText;
  const quantity = isNumber && !losesDigits(text) ? roundToDecimal(text) : undefined;
  if (quantity !== undefined && nanosFromDecimal(quantity) <= MAX_QUANTITY_NANOS) return quantity;
  throw badRequest(
    `not a number of at least 0 with at most nine decimals: quantity: ${quote(isNumber ? text : value)}: send what the event is to count as, 0 for nothing`,
  );
}

function readText(text: unknown, field: 'reason' | 'author'): string {
  if (typeof text === 'string' && text.length <= LONGEST_TEXT && CLEAN_TEXT.test(text)) return text;
  throw badRequest(
    `not a text of 1 to ${LONGEST_TEXT} characters: ${field}: ${quote(text)}: give ${field === 'reason' ? 'the reason' : 'the name of who corrects it'}`,
  );
}
