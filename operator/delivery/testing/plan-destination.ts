import type { Customers, Destination } from '../../destinations/destination.ts';
import { override } from '../../model/override.ts';
import { nanosFromDecimal } from '../../model/decimal.ts';
import type { UsageEvent } from '../../model/event.ts';
import {
  createFakeDestination,
  type FakeDestination,
  type FakeOptions,
} from './fake-destination.ts';

/** What bills a tenant from one moment to the next. */
export interface FakePlan {
  readonly plan: string;
  readonly from: number;
}

/** An event that was taken: by which plan it is billed, or by none. */
export interface Billed {
  readonly id: string;
  readonly tenant: string;
  readonly plan: string | undefined;
  readonly at: number;
  readonly nanos: bigint;
}

/** The billing system, what it made of the events, and how it behaves from now on. */
export interface PlanWorld {
  readonly destination: FakeDestination;
  readonly billed: () => readonly Billed[];
  readonly plansOf: (tenant: string) => readonly FakePlan[];
  /** Every change that was asked for, whether or not it was needed. */
  readonly changes: readonly {
    readonly tenant: string;
    readonly before: number;
    readonly to: string;
  }[];
  /** Whether a change is made, and when the billing system makes invoices. */
  reactToChange: () => 'change' | 'retry' | 'rejected';
  quiet: (now: number) => number | undefined;
  periodEndOf: (now: number) => number;
}

/**
 * A billing system that invoices a plan for good when it is changed, as the strictest do: usage is
 * billed only where it arrives while the plan of its time is still in force.
 */
export function createPlanWorld(
  options: FakeOptions & {
    readonly now: () => number;
    /** Plans begin at full hours, announced beforehand, or at the moment of the call. */
    readonly fullHours?: boolean;
    /** How long late usage of an old plan is still billed by it. */
    readonly graceMs?: number;
  },
): PlanWorld {
  const { now, fullHours = false, graceMs } = options;
  const inner = createFakeDestination(options);
  const plans = new Map<string, FakePlan[]>();
  const billed = new Map<string, Billed>();
  const changes: { tenant: string; before: number; to: string }[] = [];
  const wantedOf = (plan: string | undefined): string => plan ?? 'a';
  const currentOf = (tenant: string): FakePlan | undefined => plans.get(tenant)?.at(-1);

  const bill = ({ id, tenant, window_start, quantity }: UsageEvent): void => {
    if (billed.has(id)) return;
    const at = Date.parse(window_start);
    const all = plans.get(tenant) ?? [];
    const own = all.findLast(({ from }) => from <= at);
    const next = own && all[all.indexOf(own) + 1];
    const isOpen = next === undefined || now() < next.from + (graceMs ?? 0);
    const nanos = nanosFromDecimal(quantity);
    billed.set(id, { id, tenant, at, nanos, plan: isOpen ? own?.plan : undefined });
  };

  const destination = override<Destination, FakeDestination>(inner, {
    customers: override<Customers>(inner.customers, {
      provision: async (tenant, signal) => {
        const outcome = await inner.customers.provision(tenant, signal);
        if (outcome.kind !== 'done') return outcome;
        const current = currentOf(tenant.id);
        const wanted = wantedOf(tenant.plan);
        if (current === undefined) {
          plans.set(tenant.id, [{ plan: wanted, from: tenant.billableFrom ?? tenant.createdAt }]);
          return outcome;
        }
        if (current.plan === wanted) return outcome;
        const before = fullHours ? Math.ceil(now() / 3_600_000) * 3_600_000 : now();
        return { kind: 'drain', reason: 'other plan', before, current: current.plan, wanted };
      },
    }),
    plans: {
      change: async (tenant, before) => {
        const to = wantedOf(tenant.plan);
        changes.push({ tenant: tenant.id, before, to });
        const reaction = world.reactToChange();
        if (reaction !== 'change') return { kind: reaction, reason: 'no change now' };
        const current = currentOf(tenant.id);
        if (current === undefined) return { kind: 'retry', reason: 'no plan' };
        const grace = (from: number) =>
          graceMs === undefined ? {} : { lateUntil: from + graceMs };
        if (current.plan === to)
          return { kind: 'changed', from: current.from, ...grace(current.from) };
        const from = fullHours ? before : now();
        plans.set(tenant.id, [...(plans.get(tenant.id) ?? []), { plan: to, from }]);
        return { kind: 'changed', from, ...grace(from) };
      },
      quietUntil: (at) => world.quiet(at),
      periodEnd: async (_tenant, at) => ({ kind: 'period-end', at: world.periodEndOf(at) }),
    },
    send: async (events, signal) => {
      const outcomes = await inner.send(events, signal);
      const taken = new Set(inner.taken);
      for (const event of events) if (taken.has(event.id)) bill(event);
      return outcomes;
    },
  });
  const world: PlanWorld = {
    destination,
    billed: () => [...billed.values()],
    plansOf: (tenant) => plans.get(tenant) ?? [],
    changes,
    reactToChange: () => 'change',
    quiet: () => undefined,
    periodEndOf: (at) => at,
  };
  return world;
}
