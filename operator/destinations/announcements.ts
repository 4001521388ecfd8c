import type { BudgetNotice } from '../model/budget-notice.ts';
import type { MetricDefinition } from '../model/catalog.ts';
import type { Tenant } from '../model/tenant.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { Logger } from '../telemetry/logger.ts';
import { catalogData, type LifecycleEvent, noticeData, tenantData } from './cloud-events.ts';
import type { StepOutcome } from './destination.ts';

/** What receivers of CloudEvents are told beside usage: the catalogue, tenants and thresholds. */
export interface Announcements {
  bootstrap(catalog: readonly MetricDefinition[], signal: AbortSignal): Promise<StepOutcome>;
  provision(tenant: Tenant, signal: AbortSignal): Promise<StepOutcome>;
  offboard(tenant: Tenant, signal: AbortSignal): Promise<StepOutcome>;
  notify(notice: BudgetNotice, signal: AbortSignal): Promise<StepOutcome>;
}

/** What became of one; `split` is a refusal. */
type Told =
  | { readonly kind: 'delivered' }
  | { readonly kind: 'retry'; readonly reason: string; readonly afterMs?: number }
  | { readonly kind: 'hold'; readonly reason: string }
  | { readonly kind: 'split'; readonly reason: string };

export interface AnnouncementsOptions {
  /** The name of the destination. */
  readonly name: string;
  /** Of the events. */
  readonly source: string;
  readonly tell: (event: LifecycleEvent, signal: AbortSignal) => Promise<Told>;
  readonly clock: Pick<Clock, 'now'>;
  readonly logger: Pick<Logger, 'warn'>;
}

/**
 * Starts with nothing said. An announcement is named by the moment at which it was first made: the same at every attempt,
 * so that a receiver recognises a repeat, and another one when there is something new to say.
 */
export function createAnnouncements(options: AnnouncementsOptions): Announcements {
  const { name, source, tell, clock, logger } = options;
  const said = new Map<string, { readonly data: string; readonly at: number }>();

  function eventOf(key: string, announced: Announced): LifecycleEvent {
    const data = JSON.stringify(announced.data);
    const known = said.get(key);
    const time = known?.data === data ? known.at : clock.now();
    said.set(key, { data, at: time });
    return { ...announced, id: `${key}-${Math.floor(time / 1000)}`, source, time };
  }

  async function send(event: LifecycleEvent, signal: AbortSignal): Promise<StepOutcome> {
    const told = await tell(event, signal);
    if (told.kind === 'retry' || told.kind === 'hold') return told;
    // Who takes usage only must not lose it over an announcement that it refuses.
    if (told.kind === 'split') {
      logger.warn(`[${name}] ${event.type} refused: ${told.reason}`);
    }
    return { kind: 'done' };
  }

  const announce = (key: string, announced: Announced, signal: AbortSignal): Promise<StepOutcome> =>
    send(eventOf(key, announced), signal);

  return {
    bootstrap: (catalog, signal) =>
      announce(
        'catalog',
        { type: 'catalog.v1', subject: source, data: catalogData(catalog) },
        signal,
      ),
    provision: (tenant, signal) =>
      announce(
        `tenant-${tenant.id}`,
        { type: 'tenant.v1', subject: tenant.id, data: tenantData(tenant) },
        signal,
      ),
    offboard: async (tenant, signal) => {
      const key = `offboard-${tenant.id}`;
      const outcome = await announce(
        key,
        { type: 'tenant.offboarded.v1', subject: tenant.id, data: tenantData(tenant) },
        signal,
      );
      if (outcome.kind === 'done') {
        // Whoever comes back is told of anew, whatever there is to say.
        said.delete(key);
        said.delete(`tenant-${tenant.id}`);
      }
      return outcome;
    },
    // It has an id of its own, which outlives the process.
    notify: (notice, signal) => {
      const { id, tenant, at } = notice;
      const named = { id: `budget-${id}`, source, subject: tenant, time: at };
      return send({ ...named, type: 'budget.v1.threshold', data: noticeData(notice) }, signal);
    },
  };
}

type Announced = Pick<LifecycleEvent, 'type' | 'subject' | 'data'>;
