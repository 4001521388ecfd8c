import pLimit from 'p-limit';
import { type Alert, ALERT_SUBJECT, reasonText } from '../alerts.ts';
import type { CurrentAlertsOutcome } from '../destination.ts';
import { objectOf, textOf } from '../json.ts';
import type { MetronomeClient } from './metronome-client.ts';

const CUSTOMER_ALERTS = '/v1/customer-alerts/list';
/** Customers whose alerts one poll requests. Those with the oldest request come first. */
const CUSTOMERS = 100;
const CONCURRENT_QUESTIONS = 4;

/** Reads the alerts of tenants' customers (docs/how-to/enforcement.md#alerts-that-never-came). */
export class MetronomeStatus {
  readonly #client: MetronomeClient;
  /** Customers in the order of their last request. */
  readonly #requested = new Set<string>();

  constructor(client: MetronomeClient) {
    this.#client = client;
  }

  /** Returns alerts that are on, and those of the given subjects that are off again. */
  async poll(
    customers: ReadonlySet<string>,
    subjects: readonly string[],
    signal: AbortSignal,
  ): Promise<CurrentAlertsOutcome> {
    const inTrouble = new Set(subjects);
    const known = [...this.#requested].filter((customer) => customers.has(customer));
    const due = [...[...customers].filter((one) => !this.#requested.has(one)), ...known];
    const alerts: Alert[] = [];
    let failed: string | undefined;
    await pLimit(CONCURRENT_QUESTIONS).map(due.slice(0, CUSTOMERS), async (customer) => {
      if (failed !== undefined) return;
      const body = { customer_id: customer, alert_statuses: ['ENABLED'] };
      const list = await this.#client.list(CUSTOMER_ALERTS, body, signal, 'unsized');
      this.#requested.delete(customer);
      this.#requested.add(customer);
      // An archived customer has no alerts.
      if (list.kind === 'refused') return;
      if (list.kind !== 'list') {
        failed ??= list.reason;
        return;
      }
      for (const item of list.items) {
        const alert = statusAlert(customer, item);
        if (alert?.state === 'warning' || (alert && inTrouble.has(alert.subject))) {
          alerts.push(alert);
        }
      }
    });
    return failed === undefined ? { kind: 'alerts', alerts } : { kind: 'failed', reason: failed };
  }
}

/** Returns the alert as the webhook would report it; undefined while Metronome evaluates it. */
function statusAlert(customer: string, item: Readonly<Record<string, unknown>>): Alert | undefined {
  const alert = objectOf(item, 'alert');
  const [id, type, name] = ['id', 'type', 'name'].map((field) => textOf(alert, field));
  const status = textOf(item, 'customer_status');
  if (id === undefined || type === undefined) return undefined;
  if (status !== 'in_alarm' && status !== 'ok') return undefined;
  const isOn = status === 'in_alarm';
  return {
    provider: 'metronome',
    id: 'poll',
    type: `alerts.${isOn ? type : type.replace(/_reached$/, '_resolved')}`,
    customer: { id: customer },
    subject: `${ALERT_SUBJECT}${id}`,
    state: isOn ? 'warning' : 'active',
    reason: reasonText(name ?? type),
  };
}
