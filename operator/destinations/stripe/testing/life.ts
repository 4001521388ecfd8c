import { labelOf, summary, time } from '../../../../e2e/fakes/vectors.ts';
import type { StripeRules } from '../../../../e2e/fakes/stripe/state.ts';
import type { Tenant } from '../../../model/tenant.ts';
import { testTenant } from '../../testing/context.ts';
import type { ProvisionOutcome } from '../../destination.ts';
import type { StripeSettings } from '../settings.ts';
import {
  createStripeWorld,
  gpuEvent,
  NEVER,
  STRIPE_METRICS,
  type StripeWorld,
} from './stripe-world.ts';

/** The meter of a metric that is priced from the start; the other's price comes later. */
export const G = 'tenant_lb_hours';
export const H = 'tenant_private_node_hours';

/**
 * A tenant's months at Stripe, played like the delivery engine
 * (docs/explanation/delivery.md#changes-of-plan). It provisions. While a change waits, it retains
 * usage of the new plan. It makes the change once all other usage is delivered, and sends retained
 * usage as of the change.
 */
export interface StripeLife extends StripeWorld {
  /** Turns the clock of both sides. */
  readonly at: (moment: string) => void;
  /** Sets what discovery reports from now on. */
  readonly wish: (change: Partial<Tenant>) => Promise<ProvisionOutcome>;
  /** Sends usage with a window that starts at a moment, or retains it. */
  readonly use: (stamp: string, units: string, meter?: string) => Promise<void>;
  /** Makes a waiting change. */
  readonly change: () => Promise<void>;
  /** Returns the bills by a moment, and the state of usage on no bill. */
  readonly billed: (moment: string, byDay?: boolean) => string;
}

export async function createLife(
  rules: Partial<StripeRules>,
  settings: Partial<StripeSettings> = {},
): Promise<StripeLife> {
  const world = await createStripeWorld({ rules }, { autoSubscribe: true, ...settings });
  const start = time('01T00');
  let tenant = testTenant({ createdAt: start, billableFrom: start });
  let before: number | undefined;
  let from = 0;
  const stored: (readonly [stamp: number, units: string, meter: string])[] = [];

  const send = async (stamp: number, units: string, meter: string): Promise<void> => {
    const window = (at: number) => new Date(at).toISOString().replace('.000Z', 'Z');
    const { sku: _, ...event } = gpuEvent({
      metric: meter,
      quantity: units,
      window_start: window(stamp),
      window_end: window(stamp + 60_000),
    });
    const [outcome] = await world.destination.send([event], NEVER);
    if (outcome?.kind === 'provision') {
      await wish({});
      await use(stamp, units, meter);
    } else if (outcome?.kind !== 'delivered') throw new Error(JSON.stringify(outcome));
  };
  const use = async (stamp: number, units: string, meter: string): Promise<void> => {
    if (before !== undefined && stamp >= before) stored.push([stamp, units, meter]);
    else await send(Math.max(stamp, from), units, meter);
  };
  const wish = async (change: Partial<Tenant>): Promise<ProvisionOutcome> => {
    tenant = { ...tenant, ...change };
    const outcome = await world.destination.customers.provision(tenant, NEVER);
    if (outcome.kind === 'drain') before ??= outcome.before;
    return outcome;
  };
  const at = (moment: string): void => {
    world.time.now = time(moment);
    world.stripe.turnTo(time(moment));
  };
  at('01T00');
  await world.destination.bootstrap(STRIPE_METRICS, NEVER);
  return {
    ...world,
    at,
    wish,
    use: (stamp, units, meter = G) => use(time(stamp), units, meter),
    change: async () => {
      if (before === undefined) return;
      const changed = await world.destination.plans.change(tenant, before, NEVER);
      if (changed?.kind !== 'changed') throw new Error(JSON.stringify(changed));
      before = undefined;
      from = changed.from;
      for (const [stamp, units, meter] of stored.splice(0)) await use(stamp, units, meter);
    },
    billed: (moment, byDay = false) => {
      at(moment);
      const dated = byDay ? { kind: 'other' as const } : {};
      return summary(world.stripe.account(), (invoice) => labelOf({ ...invoice, ...dated }));
    },
  };
}
