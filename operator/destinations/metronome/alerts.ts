import type { Secret } from '../../model/secret.ts';
import {
  type Alert,
  ALERT_SUBJECT,
  idAt,
  instantAt,
  jsonObject,
  type ParsedAlert,
  reasonText,
} from '../alerts.ts';
import type { AlertsDefinition } from '../definition.ts';
import { type JsonObject, objectOf, textOf } from '../json.ts';
import {
  anyMatches,
  hmac,
  type SignedRequest,
  TOLERANCE_SECONDS,
  type Verification,
} from '../signatures.ts';

const HEADER = 'Metronome-Webhook-Signature';
const DATE_HEADERS = ['X-Metronome-Date', 'Date'] as const;
const SIGNATURE = /^[0-9a-f]{64}$/;
/** Accepts `Mon, 02 Jan 2006 22:04:05 GMT`, and no other form that `Date.parse` reads. */
const HTTP_DATE = /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/;

/**
 * Verifies a hex HMAC over `<date header's text>`, a newline and the body
 * (docs/how-to/enforcement.md#setting-up-the-billing-systems).
 */
function verify(request: SignedRequest, secrets: readonly Secret[], now: number): Verification {
  const signature = request.header(HEADER);
  if (signature === undefined) return { kind: 'unsigned', reason: `missing: ${HEADER} header` };
  const date = DATE_HEADERS.map(request.header).find((text) => text !== undefined);
  if (date === undefined || !HTTP_DATE.test(date)) {
    const reason = `missing or not an HTTP date: ${DATE_HEADERS[0]} header`;
    return { kind: 'unsigned', reason };
  }
  if (!SIGNATURE.test(signature)) {
    return { kind: 'unsigned', reason: `not 64 hexadecimal digits: ${HEADER} header` };
  }
  const expected = secrets.map((secret) => hmac(secret, `${date}\n`, request.body));
  const matches = anyMatches([Buffer.from(signature, 'hex')], expected);
  const inTime = Math.abs(now - Date.parse(date)) <= TOLERANCE_SECONDS * 1000;
  return matches && inTime ? { kind: 'signed' } : { kind: 'refused' };
}

const PAYMENT_STATUS = 'payment_gate.payment_status';

/** The ending of the message that some accounts receive when an alert is over. */
const RESOLVED = '_resolved';

/**
 * Reads a message of Metronome (https://docs.metronome.com). Its content is under `properties`, or
 * at the top for notifications of a contract's life.
 */
function parse(body: Uint8Array): ParsedAlert {
  const event = jsonObject(body);
  const id = event && idAt(event, 'id');
  const type = event && idAt(event, 'type');
  if (event === undefined || id === undefined || type === undefined) {
    return { kind: 'malformed', reason: 'not a Metronome message: body: id or type is missing' };
  }
  const stated = 'properties' in event ? objectOf(event, 'properties') : event;
  const customer = idAt(stated, 'customer_id') ?? idAt(objectOf(stated, 'customer'), 'id');
  if (customer === undefined) return { kind: 'irrelevant', reason: `${type} names no customer` };
  const at = instantAt(stated, 'timestamp') ?? instantAt(event, 'timestamp');
  const alert: Alert = {
    provider: 'metronome',
    id,
    type,
    at,
    customer: { id: customer },
    ...meaningOf(type, stated),
  };
  return { kind: 'alert', alert };
}

function meaningOf(
  type: string,
  stated: JsonObject,
): Pick<Alert, 'subject' | 'state' | 'settles' | 'reason'> {
  if (type.startsWith('alerts.')) {
    return {
      // A resolution without the id of its alert ends the alert of its own type.
      subject: `${ALERT_SUBJECT}${idAt(stated, 'alert_id') ?? alertType(type)}`,
      state: type.endsWith(RESOLVED) ? 'active' : 'warning',
      reason: reasonText(textOf(stated, 'alert_name') ?? type),
    };
  }
  if (type !== PAYMENT_STATUS) return { subject: `event/${type}`, reason: type };
  const status = textOf(stated, 'payment_status') ?? '';
  const subject = `payment/${idAt(stated, 'invoice_id') ?? 'any'}`;
  const reason = reasonText(`${type}: ${status}`);
  if (status === 'failed') return { subject, state: 'delinquent', reason };
  if (status === 'paid') return { subject, state: 'active', settles: 'alerts', reason };
  return { subject, reason };
}

/** Returns one type for `alerts.spend_threshold_reached` and `alerts.spend_threshold_resolved`. */
function alertType(type: string): string {
  return type.replace(/^alerts\./, '').replace(/_(reached|resolved)$/, '');
}

/** Metronome's messages to `/webhooks`. */
export const metronomeAlerts: AlertsDefinition = {
  secretVariable: 'BILLING_B_WEBHOOK_SECRET',
  signsId: true,
  verify,
  parse: ({ body }) => parse(body),
};
