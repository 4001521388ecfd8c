import {
  createPlanBuilder,
  fair,
  HOUR_MS,
  outage,
  type PlanBuilder,
  weather,
} from './plan-builder.ts';
import { DESTINATION_NAMES, type DestinationName } from './destinations.ts';
import { MONTH_VENDORS, monthPlanOf } from '../months/month-plan.ts';
import type { Action, Death, Life, Plan } from './plan.ts';
import {
  APPEND_STEPS,
  DELIVERY_STEPS,
  RETENTION_STEPS,
  ROLL_STEPS,
  SET_UP_STEPS,
  type StepName,
  VERIFY_STEPS,
} from './subject/steps.ts';

/** One class of accidents. */
export interface Scenario {
  readonly name: string;
  readonly plan: (seed: number) => Plan;
}

function scenario(
  name: string,
  build: (builder: PlanBuilder) => Plan,
  fed?: DestinationName,
  others?: readonly DestinationName[],
): Scenario {
  return { name, plan: (seed) => build(createPlanBuilder(seed, name, fed, others)) };
}

/** Lives that end by the same kind of accident, each with a few windows. */
function repeated(
  builder: PlanBuilder,
  lives: number,
  fate: (builder: PlanBuilder) => Partial<Life>,
): PlanBuilder {
  for (let life = 0; life < lives; life += 1) {
    const actions = builder.windows(builder.random.between(2, 6));
    builder.live({ actions, ...fate(builder) });
  }
  return builder;
}

function atRandomCall({ random }: PlanBuilder, how: Death['how']): Death {
  return { how, when: { kind: 'call', number: random.between(1, 140) } };
}

function atStep({ random }: PlanBuilder, step: StepName, highestHit = 3): Death {
  const how = random.chance(0.3) ? 'killed' : 'abandoned';
  return { how, when: { kind: 'step', step, hit: random.between(1, highestHit) } };
}

const kills: readonly Scenario[] = [
  scenario('kill -9 at a random moment', (builder) =>
    repeated(builder, 2, ({ random }) => ({
      death: { how: 'killed', when: { kind: 'time', ms: random.between(1, 250) } },
    })).plan(),
  ),
  scenario('kill -9 at a random call', (builder) =>
    repeated(builder, 2, (one) => ({ death: atRandomCall(one, 'killed') })).plan(),
  ),
  scenario('dying at random calls, again and again', (builder) =>
    repeated(builder, builder.random.between(2, 5), (one) => ({
      death: atRandomCall(one, 'abandoned'),
    })).plan(),
  ),
];

const deathsAtSteps: readonly Scenario[] = [
  ...[...SET_UP_STEPS].map((step) =>
    scenario(`death at ${step}`, (builder) =>
      repeated(builder, 2, (one) => ({ death: atStep(one, step, 1) })).plan(),
    ),
  ),
  ...[...APPEND_STEPS, ...DELIVERY_STEPS].map((step) =>
    scenario(
      `death at ${step}`,
      (builder) => repeated(builder, 2, (one) => ({ death: atStep(one, step) })).plan(),
      // Only what forgets ids has its events put on record before they are sent.
      step.startsWith('in-flight') ? 'forgetful' : undefined,
    ),
  ),
  ...ROLL_STEPS.map((step) =>
    scenario(`death at ${step}`, (builder) =>
      repeated(builder, 2, (one) => ({ death: atStep(one, step, 2) })).plan({ segmentEvents: 10 }),
    ),
  ),
  ...RETENTION_STEPS.map((step) =>
    scenario(`death at ${step}`, (builder) => {
      for (let life = 0; life < 2; life += 1) {
        const filled = builder.windows(6);
        const aged = [builder.pass(6 * HOUR_MS), ...builder.windows(2), builder.pass(6 * HOUR_MS)];
        const actions = [...filled, ...aged, { do: 'retain' } as const, ...builder.windows(2)];
        builder.live({ actions, death: atStep(builder, step, 2) });
      }
      return builder.plan({ segmentEvents: 10, retentionMs: HOUR_MS });
    }),
  ),
  scenario('death at recover:before-open', (builder) => {
    for (let life = 0; life < 2; life += 1) {
      const actions = builder.windows(1);
      for (let fault = 0; fault < 3; fault += 1) {
        const nth = builder.random.between(1, 3);
        actions.push({ do: 'fail-sync', nth, times: 2 }, ...builder.windows(2));
      }
      builder.live({ actions, death: atStep(builder, 'recover:before-open', 1) });
    }
    return builder.plan({ faultyDisk: true });
  }),
];

const disks: readonly Scenario[] = [
  scenario('power cut', (builder) =>
    repeated(builder, builder.random.between(1, 3), (one) => ({
      death: atRandomCall(one, 'abandoned'),
      powerCut: { seed: one.random.seed() },
    })).plan({ faultyDisk: true }),
  ),
  scenario('power cut at a step', (builder) =>
    repeated(builder, 2, (one) => {
      const steps = [...SET_UP_STEPS, ...APPEND_STEPS, ...ROLL_STEPS, ...DELIVERY_STEPS];
      return {
        death: atStep(one, one.random.pick(steps)),
        powerCut: { seed: one.random.seed() },
      };
    }).plan({ faultyDisk: true, segmentEvents: 12 }),
  ),
  scenario('flipped bit', (builder) =>
    repeated(builder, 2, (one) => ({
      damage: { kind: 'flip', seed: one.random.seed() },
    })).plan(),
  ),
  scenario('torn file', (builder) =>
    repeated(builder, 2, (one) => ({
      ...(one.random.chance(0.5) && { death: atRandomCall(one, 'abandoned') }),
      damage: { kind: 'tear', seed: one.random.seed() },
    })).plan(),
  ),
  scenario('full disk and room again', (builder) => {
    for (let life = 0; life < builder.random.between(1, 2); life += 1) {
      const bytes = builder.random.pick([0, 1_000, 4_000, 20_000, 60_000, 150_000]);
      builder.live({
        actions: [
          ...builder.windows(2),
          { do: 'disk-room', bytes },
          ...builder.windows(builder.random.between(2, 8)),
          builder.pass(HOUR_MS),
          { do: 'disk-room', bytes: undefined },
          ...builder.windows(2),
        ],
        ...(builder.random.chance(0.4) && { death: atRandomCall(builder, 'abandoned') }),
      });
    }
    return builder.plan({ faultyDisk: true, segmentEvents: builder.random.pick([15, 200]) });
  }),
  scenario('failed sync', (builder) => {
    const actions = [...builder.windows(1)];
    for (let fault = 0; fault < 3; fault += 1) {
      actions.push({ do: 'fail-sync', nth: builder.random.between(1, 12) }, ...builder.windows(3));
    }
    builder.live({ actions });
    const failingSync = builder.random.between(1, 20);
    builder.live({ actions: builder.windows(2), failingSync });
    return builder.plan({ faultyDisk: true, segmentEvents: 15 });
  }),
  scenario('failed sync, then power cut', (builder) => {
    for (let life = 0; life < 2; life += 1) {
      builder.live({
        actions: [
          ...builder.windows(1),
          { do: 'fail-sync', nth: builder.random.between(1, 10) },
          ...builder.windows(4),
        ],
        death: atRandomCall(builder, 'abandoned'),
        powerCut: { seed: builder.random.seed() },
      });
    }
    return builder.plan({ faultyDisk: true, segmentEvents: 20 });
  }),
];

/** Destinations that forget ids within days. */
const FORGETFUL: readonly (readonly [fed: DestinationName, at: string])[] = [
  ['forgetful', ''],
  ['stripe', ' at Stripe'],
];

/** Hours. */
const DAYS = [
  [1, 60],
  [1, 60],
  [1, 60],
] as const;
const WEEKS = [
  [410, 450],
  [1, 150],
  [1, 150],
] as const;

const vendors: readonly Scenario[] = [
  scenario('connection resets', (builder) => stormy(builder, ['reset', 'commit-then-reset'])),
  scenario('time-outs after the vendor committed', (builder) =>
    stormy(builder, ['commit-then-hang', 'hang', 'commit-then-hang']),
  ),
  scenario('429 and 5xx storms', (builder) => stormy(builder, ['status', 'commit-then-status'])),
  ...FORGETFUL.flatMap(([fed, at]) =>
    [0, 4].map((clockHours) =>
      scenario(
        clockHours === 0
          ? `lost answer${at}, crash, and days of silence`
          : `lost answer${at}, crash, and a clock that was wrong`,
        (builder) => silence(builder, clockHours),
        fed,
      ),
    ),
  ),
  // Longer than an id is trusted to be remembered, and shorter than events are taken at all. Of a tenant that is first
  // heard of after a month's end Lago invoices nothing of that month (docs/how-to/destinations/lago.md), which is told.
  scenario(
    'lost answer, crash, and weeks of silence',
    (builder) => silence(builder, 0, WEEKS),
    'metronome',
    DESTINATION_NAMES.filter((name) => !name.startsWith('lago')),
  ),
  scenario('destination down for 48 hours', (builder) => {
    const down = builder.random.pick(builder.destinations);
    const actions = [...builder.windows(3), outage(builder.random, down)];
    for (let hours = 0; hours < 48; hours += 6) {
      actions.push(...builder.windows(1, { calm: true }), builder.pass(6 * HOUR_MS - 60_000));
      actions.push({ do: 'retain' });
    }
    actions.push(fair(down), ...builder.windows(2));
    const death = builder.random.chance(0.5) ? atRandomCall(builder, 'abandoned') : undefined;
    builder.live({ actions, death });
    return builder.plan({ segmentEvents: 20, retentionMs: 12 * HOUR_MS });
  }),
];

/** Answers are lost, the process dies, and nothing runs for so many hours, from and to, again and again. */
function silence(
  builder: PlanBuilder,
  clockHours: number,
  downtimes: readonly (readonly [number, number])[] = DAYS,
): Plan {
  const { random } = builder;
  const wrongClock = (): Action[] => {
    const hours = random.between(-clockHours, clockHours);
    return hours === 0 ? [] : [{ do: 'step-clock', ms: hours * HOUR_MS }];
  };
  for (const [shortest, longest] of downtimes) {
    const blind = builder.destinations.map((name) =>
      weather(random, name, ['commit-then-reset', 'commit-then-status']),
    );
    const step = random.pick<StepName>(['send:after', 'cursor:before', ...VERIFY_STEPS]);
    builder.live({
      actions: [
        ...wrongClock(),
        ...builder.windows(1, { calm: true }),
        ...blind,
        ...builder.windows(2),
        ...wrongClock(),
        ...builder.windows(1),
      ],
      death: atStep(builder, step, VERIFY_STEPS.includes(step) ? 1 : 4),
      downtimeMs: random.between(shortest, longest) * HOUR_MS,
    });
  }
  return builder.plan();
}

function stormy(builder: PlanBuilder, kinds: Parameters<typeof weather>[2]): Plan {
  for (let life = 0; life < 2; life += 1) {
    const actions = Array.from({ length: 3 }, () => [
      ...builder.destinations.map((name) => weather(builder.random, name, kinds)),
      ...builder.windows(2, { calm: true }),
    ]).flat();
    const dies = builder.random.chance(0.5);
    builder.live({ actions, ...(dies && { death: atRandomCall(builder, 'abandoned') }) });
  }
  return builder.plan();
}

const clocksAndInstances: readonly Scenario[] = [
  scenario('clock steps', (builder) => {
    for (let life = 0; life < 2; life += 1) {
      const actions = Array.from({ length: 4 }, () => [
        { do: 'step-clock', ms: builder.random.between(-6, 6) * HOUR_MS } as const,
        ...builder.windows(2),
      ]).flat();
      const dies = builder.random.chance(0.5);
      builder.live({ actions, ...(dies && { death: atRandomCall(builder, 'abandoned') }) });
    }
    return builder.plan({ segmentEvents: 20 });
  }),
  ...[false, true].map((lockDeleted) =>
    scenario(lockDeleted ? 'second instance past a deleted lock' : 'second instance', (builder) => {
      builder.live({
        actions: [
          ...builder.windows(builder.random.between(1, 4)),
          { do: 'second-instance', lockDeleted },
          ...builder.windows(3),
        ],
      });
      return builder.plan();
    }),
  ),
];

const months: readonly Scenario[] = MONTH_VENDORS.map((vendor) => {
  const name = `months of invoices: ${vendor}`;
  return {
    name,
    plan: (seed) => {
      const month = monthPlanOf(seed, vendor);
      const late = month.late === 'send' ? '' : `, late: ${month.late}`;
      return {
        seed,
        scenario: `${name}${late}`,
        destinations: [],
        retentionMs: 0,
        segmentEvents: 0,
        faultyDisk: false,
        requests: [],
        lives: [],
        month,
      };
    },
  };
});

/** Every class of accidents; seed s is about the class at s modulo their number. */
export const SCENARIOS: readonly Scenario[] = [
  ...kills,
  ...disks,
  ...vendors,
  ...clocksAndInstances,
  ...deathsAtSteps,
  ...months,
];

export function planOf(seed: number): Plan {
  const chosen = SCENARIOS[seed % SCENARIOS.length];
  if (chosen === undefined) throw new RangeError(`faults: --seed: not a whole number: "${seed}"`);
  return chosen.plan(seed);
}
