import type { FakeResponse } from '../fake-server.ts';
import { invalid, missing, ok } from './answers.ts';
import { cancelNow } from './cycles.ts';
import { type Form, items, text } from './form.ts';
import { unknownParameter } from './lists.ts';
import {
  liveItems,
  nextId,
  type Phase,
  type Proration,
  type Schedule,
  type StripeState,
} from './state.ts';

/**
 * Creates a schedule from a subscription: its first phase is the running period with the current
 * items.
 */
export function createSchedule(state: StripeState, form: Form): FakeResponse {
  const unknown = unknownParameter(form, ['from_subscription', 'metadata']);
  if (unknown !== undefined) return unknown;
  const id = text(form, 'from_subscription') ?? '';
  const subscription = state.subscriptions.get(id);
  if (subscription === undefined || subscription.status === 'canceled') {
    return missing('subscription', id);
  }
  if (activeOf(state, id) !== undefined) {
    return invalid('You cannot migrate a subscription that is already attached to a schedule.');
  }
  const schedule: Schedule = {
    id: nextId(state, 'sub_sched'),
    subscription: id,
    status: 'active',
    endBehavior: 'release',
    phases: [
      {
        start: subscription.periodStart,
        end: subscription.periodEnd,
        prices: liveItems(subscription).map(({ price }) => price),
        proration: 'create_prorations',
      },
    ],
  };
  state.schedules.set(schedule.id, schedule);
  return ok(show(schedule));
}

/** Replaces all phases; the first one is the running one. */
export function updateSchedule(
  state: StripeState,
  id: string,
  form: Form,
  at: number,
): FakeResponse {
  const known = ['phases', 'end_behavior', 'proration_behavior', 'metadata'];
  const unknown = unknownParameter(form, known);
  if (unknown !== undefined) return unknown;
  const schedule = state.schedules.get(id);
  if (schedule === undefined) return missing('subscription_schedule', id);
  if (schedule.status !== 'active') return invalid(`This schedule is ${schedule.status}.`);
  const phases: Phase[] = [];
  for (const item of items(form, 'phases')) {
    const phase = readPhase(item, phases.at(-1)?.end ?? schedule.phases[0]?.start ?? 0);
    const price = phase.prices.find((one) => !state.prices.has(one));
    if (price !== undefined) return missing('price', price);
    phases.push(phase);
  }
  if (phases.length > 0) {
    schedule.phases = phases.filter(({ end }) => end === undefined || end > at / 1000);
  }
  const behavior = text(form, 'end_behavior');
  if (behavior === 'release' || behavior === 'cancel') schedule.endBehavior = behavior;
  return ok(show(schedule));
}

function readPhase(form: Form, follows: number): Phase {
  const end = text(form, 'end_date');
  const proration = text(form, 'proration_behavior') ?? 'create_prorations';
  return {
    start: Number(text(form, 'start_date') ?? follows),
    end: end === undefined ? undefined : Number(end),
    prices: items(form, 'items').map((item) => text(item, 'price') ?? ''),
    proration: proration as Proration,
  };
}

/** Ends a schedule and keeps the subscription without its future phases. */
export function releaseSchedule(state: StripeState, id: string): FakeResponse {
  const schedule = state.schedules.get(id);
  if (schedule === undefined) return missing('subscription_schedule', id);
  if (schedule.status !== 'active') return invalid(`This schedule is ${schedule.status}.`);
  schedule.status = 'released';
  return ok(show(schedule));
}

/** Ends a schedule with its subscription, and invoices its usage by default. */
export function cancelSchedule(
  state: StripeState,
  id: string,
  form: Form,
  at: number,
): FakeResponse {
  const schedule = state.schedules.get(id);
  const subscription = state.subscriptions.get(schedule?.subscription ?? '');
  if (schedule === undefined || subscription === undefined) {
    return missing('subscription_schedule', id);
  }
  schedule.status = 'canceled';
  cancelNow(state, subscription, text(form, 'invoice_now') !== 'false', Math.floor(at / 1000));
  return ok(show(schedule));
}

export function showSchedule(state: StripeState, id: string): FakeResponse {
  const schedule = state.schedules.get(id);
  return schedule === undefined ? missing('subscription_schedule', id) : ok(show(schedule));
}

function activeOf(state: StripeState, subscription: string): Schedule | undefined {
  return [...state.schedules.values()].find(
    (one) => one.subscription === subscription && one.status === 'active',
  );
}

function show({ id, subscription, status, endBehavior, phases }: Schedule) {
  const [current] = phases;
  return {
    id,
    object: 'subscription_schedule',
    livemode: false,
    subscription: status === 'released' ? null : subscription,
    released_subscription: status === 'released' ? subscription : null,
    status,
    end_behavior: endBehavior,
    metadata: {},
    current_phase:
      current === undefined ? null : { start_date: current.start, end_date: current.end ?? null },
    phases: phases.map(({ start, end, prices, proration }) => ({
      start_date: start,
      end_date: end ?? null,
      proration_behavior: proration,
      items: prices.map((price) => ({ price, metadata: {} })),
    })),
  };
}
