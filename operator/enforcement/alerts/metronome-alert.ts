import { recordAt, textAt } from '../../discovery/object-reading.ts';
import type { RawObject } from '../../kubernetes/source.ts';
import { type Alert, ALERT_SUBJECT, type ParsedAlert, reasonText } from './alert.ts';
import { idAt, instantAt, jsonObject } from './body.ts';

const PAYMENT_STATUS = 'payment_gate.payment_status';

/** The twin that some accounts are sent when an alert is over. */
const RESOLVED = '_resolved';

/**
 * A message of Metronome (facts/destinations.md 3.7): what it says is under `properties`, or, for
 * notifications of the contract's life, at the top.
 */
export function parseMetronomeAlert(body: Uint8Array): ParsedAlert {
  const event = jsonObject(body);
  const id = event && idAt(event, 'id');
  const type = event && idAt(event, 'type');
  if (event === undefined || id === undefined || type === undefined) {
    return { kind: 'malformed', reason: 'not a Metronome message: body: id or type is missing' };
  }
  const said = 'properties' in event ? recordAt(event, 'properties') : event;
  const customer = idAt(said, 'customer_id') ?? idAt(recordAt(said, 'customer'), 'id');
  if (customer === undefined) return { kind: 'irrelevant', reason: `${type} names no customer` };
  const at = instantAt(said, 'timestamp') ?? instantAt(event, 'timestamp');
  const alert: Alert = {
    provider: 'metronome',
    id,
    type,
    ...(at !== undefined && { at }),
    customer: { id: customer },
    ...meaningOf(type, said),
  };
  return { kind: 'alert', alert };
}

function meaningOf(
  type: string,
  said: RawObject,
): Pick<Alert, 'subject' | 'state' | 'settles' | 'reason'> {
  if (type.startsWith('alerts.')) {
    return {
      // A resolution that does not name its alert ends the alert of its own type.
      subject: `${ALERT_SUBJECT}${idAt(said, 'alert_id') ?? alertType(type)}`,
      state: type.endsWith(RESOLVED) ? 'active' : 'warning',
      reason: reasonText(textAt(said, 'alert_name') ?? type),
    };
  }
  if (type !== PAYMENT_STATUS) return { subject: `event/${type}`, reason: type };
  const status = textAt(said, 'payment_status') ?? '';
  const subject = `payment/${idAt(said, 'invoice_id') ?? 'any'}`;
  const reason = reasonText(`${type}: ${status}`);
  if (status === 'failed') return { subject, state: 'delinquent', reason };
  if (status === 'paid') return { subject, state: 'active', settles: 'alerts', reason };
  return { subject, reason };
}

/** `alerts.spend_threshold_reached` and `alerts.spend_threshold_resolved` are of one type. */
function alertType(type: string): string {
  return type.replace(/^alerts\./, '').replace(/_(reached|resolved)$/, '');
}
