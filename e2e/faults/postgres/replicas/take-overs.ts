import { setTimeout as delay } from 'node:timers/promises';
import { LEASE_TIMES } from '../../../../operator/ledger/leases.ts';
import type { Random } from '../../random.ts';
import type { Accident, Scene } from '../accidents.ts';
import type { ReplicaProcess } from './replica-process.ts';
import type { ReplicaSet } from './replica-set.ts';

/** A way in which another process becomes the meter. In the end one leads that lives. */
export interface TakeOver {
  readonly name: string;
  happen(replicas: ReplicaSet, random: Random): Promise<void>;
}

export const TAKE_OVERS: readonly TakeOver[] = [
  {
    name: 'the meter is killed',
    async happen(replicas) {
      const { meter } = replicas;
      await meter.kill();
      await replicas.takeOver(meter);
    },
  },
  {
    name: 'the meter is frozen, and goes on after it was taken over',
    happen: (replicas, random) => frozen(replicas, random.between(0, 2_000)),
  },
  {
    name: 'two believe to lead',
    async happen(replicas) {
      await refused(replicas, await replicas.handOver());
    },
  },
  {
    // Then its lease is somebody else's as well.
    name: 'the meter is frozen for longer than its leases, and goes on',
    happen: (replicas) => frozen(replicas, LEASE_TIMES.expiry + 2_000),
  },
  {
    name: 'the meter stops in order',
    async happen(replicas) {
      const { meter } = replicas;
      await meter.end();
      await replicas.takeOver(meter);
    },
  },
];

const NOTHING: Accident = { name: 'nothing', happen: () => Promise.resolve() };

/** Each accident of the servers with each take-over meanwhile, and each take-over alone. */
export function withTakeOvers(accidents: readonly Accident[]): readonly Accident[] {
  const all = [NOTHING, ...accidents];
  return TAKE_OVERS.flatMap((_, round) =>
    all.flatMap((accident, index) => {
      // So that few seeds bring all of both.
      const takeOver = TAKE_OVERS[(index + round) % TAKE_OVERS.length];
      return takeOver === undefined ? [] : [together(accident, takeOver)];
    }),
  );
}

/** The longest that one begins after the other. */
const APART_MS = 1_500;

function together(accident: Accident, takeOver: TakeOver): Accident {
  return {
    ...accident,
    name: `${accident.name}; ${takeOver.name}`,
    async happen(scene: Scene) {
      const { replicas, random } = scene;
      if (replicas === undefined) throw new Error('take-over: there is one process only');
      const [before, after] = [random.between(0, APART_MS), random.between(0, APART_MS)];
      await Promise.all([
        delay(before).then(() => accident.happen(scene)),
        delay(after).then(() => takeOver.happen(replicas, random)),
      ]);
      await replicas.complete();
    },
  };
}

async function frozen(replicas: ReplicaSet, forMs: number): Promise<void> {
  const { meter } = replicas;
  meter.freeze();
  try {
    await replicas.takeOver(meter);
    await delay(forMs);
  } finally {
    meter.thaw();
  }
  await refused(replicas, meter);
}

/**
 * Waits until the former meter has found out that it is none any more, and that its lease is another's where it is; or until
 * it has written on, which {@link ReplicaSet.contradictions} tells.
 */
async function refused({ meter }: ReplicaSet, former: ReplicaProcess): Promise<void> {
  const { term } = former.said('leads').at(-1) ?? { term: 0 };
  const { found } = meter.said('leads').at(-1) ?? { found: -1 };
  await former.until('refused as the meter', () => {
    const isRefused = former.said('fenced').some((each) => each.term === term);
    return isRefused || former.said('closed').some(({ window }) => window > found);
  });
  const last = former.said('holds').at(-1);
  const next = meter.said('holds').at(-1);
  if (last === undefined || next === undefined || next.epoch <= last.epoch) return;
  await former.until('refused as the feeder', () => {
    const isRefused = former.said('dispossessed').some(({ epoch }) => epoch === last.epoch);
    return isRefused || former.said('moved').some(({ cursor }) => cursor > next.cursor);
  });
}
