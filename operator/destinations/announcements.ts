import type { BudgetNotice } from '../model/budget-notice.ts';
import type { MetricDefinition } from '../model/catalog.ts';
import type { Tenant } from '../model/tenant.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import { catalogData, type LifecycleEvent, noticeData, tenantData } from './cloud-events.ts';
import type { Customers, StepOutcome } from './destination.ts';

/** The result of one announcement; `split` is a refusal. */
type AnnouncementOutcome =
  | { readonly kind: 'delivered' }
  | { readonly kind: 'retry'; readonly reason: string; readonly afterMs?: number }
  | { readonly kind: 'blocked'; readonly reason: string }
  | { readonly kind: 'split'; readonly reason: string };

type Announced = Pick<LifecycleEvent, 'type' | 'subject' | 'data'>;

/**
 * Reports the catalogue, tenants and thresholds to receivers of CloudEvents.
 *
 * An announcement's id contains the moment of its first attempt. Retries have the same id, so that
 * a receiver recognises a repeat; changed data gets another id.
 */
export class Announcements implements Customers {
  readonly #options;
  readonly #made = new Map<string, { readonly data: string; readonly at: number }>();

  constructor(options: {
    readonly name: string;
    /** The CloudEvents source of the events. */
    readonly source: string;
    readonly post: (event: LifecycleEvent, signal: AbortSignal) => Promise<AnnouncementOutcome>;
    readonly clock: Pick<Clock, 'now'>;
    readonly logger: Pick<Logger, 'warn'>;
  }) {
    this.#options = options;
  }

  bootstrap(catalog: readonly MetricDefinition[], signal: AbortSignal): Promise<StepOutcome> {
    const { source: subject } = this.#options;
    const announced = { type: 'catalog.v1', subject, data: catalogData(catalog) } as const;
    return this.#announce('catalog', announced, signal);
  }

  provision(tenant: Tenant, signal: AbortSignal): Promise<StepOutcome> {
    const { id: subject } = tenant;
    const announced = { type: 'tenant.v1', subject, data: tenantData(tenant) } as const;
    return this.#announce(`tenant-${subject}`, announced, signal);
  }

  async offboard(tenant: Tenant, signal: AbortSignal): Promise<StepOutcome> {
    const { id: subject } = tenant;
    const announced = { type: 'tenant.offboarded.v1', subject, data: tenantData(tenant) } as const;
    const outcome = await this.#announce(`offboard-${subject}`, announced, signal);
    // Forget the tenant: if it comes back with the same data, it must be announced again.
    if (outcome.kind === 'done') {
      this.#made.delete(`offboard-${subject}`);
      this.#made.delete(`tenant-${subject}`);
    }
    return outcome;
  }

  /** Sends a notice. Its own id outlives the process. */
  notify(notice: BudgetNotice, signal: AbortSignal): Promise<StepOutcome> {
    const { id, tenant: subject, at: time } = notice;
    const named = { id: `budget-${id}`, source: this.#options.source, subject, time };
    return this.#send({ ...named, type: 'budget.v1.threshold', data: noticeData(notice) }, signal);
  }

  #announce(key: string, announced: Announced, signal: AbortSignal): Promise<StepOutcome> {
    const { source, clock } = this.#options;
    const data = JSON.stringify(announced.data);
    const known = this.#made.get(key);
    const time = known?.data === data ? known.at : clock.now();
    this.#made.set(key, { data, at: time });
    const id = `${key}-${Math.floor(time / 1000)}`;
    return this.#send({ ...announced, id, source, time }, signal);
  }

  async #send(event: LifecycleEvent, signal: AbortSignal): Promise<StepOutcome> {
    const { name, post, logger } = this.#options;
    const answer = await post(event, signal);
    if (answer.kind === 'retry' || answer.kind === 'blocked') return answer;
    // A receiver that takes only usage must keep getting it, so a refused announcement counts as
    // done.
    if (answer.kind === 'split') logger.warn(`[${name}] ${event.type} refused: ${answer.reason}`);
    return { kind: 'done' };
  }
}
