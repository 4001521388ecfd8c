import type { Misbehaviour } from '../fakes/misbehaviour.ts';
import { DESTINATION_NAMES, type DestinationName } from './destinations.ts';
import type { Action, Life, Plan, RequestPlan } from './plan.ts';
import { createRandom, type Random } from './random.ts';
import { WINDOW_MS } from './workload.ts';

export const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** Puts a plan together, keeping count of requests and of time. */
export interface PlanBuilder {
  readonly random: Random;
  readonly destinations: readonly DestinationName[];
  /** Windows one after the other, with what happens to an operator on ordinary days in between. */
  windows(count: number, options?: { readonly calm?: boolean }): Action[];
  pass(ms: number): Action;
  live(life: Partial<Life> & Pick<Life, 'actions'>): void;
  plan(change?: Partial<Plan>): Plan;
}

/** `fed` is among the destinations; a random one of `others` comes with it. */
export function createPlanBuilder(
  seed: number,
  scenario: string,
  fed?: DestinationName,
  others: readonly DestinationName[] = DESTINATION_NAMES,
): PlanBuilder {
  const random = createRandom(seed);
  const first = fed ?? random.pick(DESTINATION_NAMES);
  const second = random.pick(others.filter((name) => name !== first));
  const destinations = [first, second];
  const requests: RequestPlan[] = [];
  const lives: Life[] = [];
  let now = 0;

  const pass = (ms: number): Action => {
    now += ms;
    return { do: 'pass', ms };
  };
  const request = (kind: RequestPlan['kind'], events: number): number => {
    const windowStart = Math.max(0, Math.floor(now / WINDOW_MS) - 1) * WINDOW_MS;
    requests.push({ kind, events, windowStart });
    return requests.length - 1;
  };
  const disturbance = (): Action[] => {
    if (random.chance(0.3)) return [weather(random, random.pick(destinations))];
    if (random.chance(0.1)) return [{ do: 'step-clock', ms: random.between(-30, 30) * 60_000 }];
    return [];
  };

  return {
    random,
    destinations,
    pass,
    windows: (count, { calm = false } = {}) =>
      Array.from({ length: count }, (): Action[] => {
        const before = calm ? [] : disturbance();
        const waited = pass(WINDOW_MS);
        const window = request('window', random.between(2, 12));
        const actions: Action[] = [...before, waited, { do: 'append', request: window }];
        if (random.chance(0.3)) {
          const bodies = Array.from({ length: random.between(1, 3) }, () =>
            request('ingest', random.between(1, 4)),
          );
          actions.push({ do: 'append-together', requests: bodies });
        }
        return actions;
      }).flat(),
    live: (life) => {
      const downtimeMs = life.downtimeMs ?? random.pick([0, 5_000, 60_000, HOUR_MS]);
      now += downtimeMs;
      lives.push({ ...life, downtimeMs });
    },
    plan: (change = {}) => ({
      seed,
      scenario,
      destinations,
      retentionMs: 7 * DAY_MS,
      segmentEvents: random.pick([20, 60, 1_000]),
      faultyDisk: false,
      requests,
      lives,
      ...change,
    }),
  };
}

type Kind = Misbehaviour['kind'];

const COMMON: readonly Kind[] = [
  'reset',
  'commit-then-reset',
  'status',
  'status',
  'commit-then-status',
];

/** A vendor misbehaves for some calls. */
export function weather(
  random: Random,
  destination: DestinationName,
  kinds: readonly Kind[] = COMMON,
): Action {
  const orders = Array.from({ length: random.between(1, 3) }, (): Misbehaviour => {
    const kind = random.pick(kinds);
    const status = random.pick([429, 500, 502, 503]);
    return {
      kind,
      times: kind.endsWith('hang') ? 1 : random.between(1, 6),
      every: random.between(1, 3),
      status,
      ...(status === 429 && { headers: { 'retry-after': String(random.between(1, 90)) } }),
    };
  });
  const halves = random.chance(0.3) ? random.between(1, 2) : 0;
  return { do: 'weather', destination, orders, halves };
}

/** A vendor answers nobody until it is told otherwise. */
export function outage(random: Random, destination: DestinationName): Action {
  const order: Misbehaviour = random.pick([
    { kind: 'status', status: 503 },
    { kind: 'reset' },
    { kind: 'status', status: 429, headers: { 'retry-after': '600' } },
  ]);
  return { do: 'weather', destination, orders: [order] };
}

export function fair(destination: DestinationName): Action {
  return { do: 'weather', destination, orders: [] };
}
