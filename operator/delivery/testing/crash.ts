import type { Destination } from '../../destinations/destination.ts';
import type { LateBiller } from '../../destinations/late.ts';
import { override } from '../../model/override.ts';
import type { Ledger } from '../../ledger/ledger.ts';

/** A process that may end at any of its awaits: from then on nothing it does has an effect. */
export interface MortalProcess {
  readonly dead: boolean;
  /** Resolves when it does. */
  readonly died: Promise<void>;
  /** Kills it now. */
  kill(): void;
  ledger(ledger: Ledger): Ledger;
  destination<T extends Destination>(destination: T): T;
}

const FOREVER = new Promise<never>(() => undefined);

/**
 * Dies after so many awaits on the ledger or the destination. Each call counts twice, before and after
 * its effect, so that it may die with the effect done and nobody told.
 */
export function createMortalProcess(awaits: number): MortalProcess {
  let left = awaits;
  let dead = false;
  const { promise: died, resolve } = Promise.withResolvers<void>();
  const die = (): void => {
    dead = true;
    resolve();
  };

  const pass = async (): Promise<void> => {
    if (dead) await FOREVER;
    left -= 1;
    if (left > 0) return;
    die();
    await FOREVER;
  };
  const around = async <T>(effect: () => Promise<T>): Promise<T> => {
    await pass();
    const result = await effect();
    await pass();
    return result;
  };

  return {
    get dead() {
      return dead;
    },
    died,
    kill: die,
    ledger: (inner) => ({
      ...inner,
      append: (batch) => around(() => inner.append(batch)),
      read: (after, limit) => around(() => inner.read(after, limit)),
      commitCursor: (...call) => around(() => inner.commitCursor(...call)),
      moveCursor: (...call) => around(() => inner.moveCursor(...call)),
      retireCursor: (...call) => around(() => inner.retireCursor(...call)),
      dropCursor: (...call) => around(() => inner.dropCursor(...call)),
      record: (key) => around(() => inner.record(key)),
      writeRecords: (changes) => around(() => inner.writeRecords(changes)),
      records: async function* (prefix) {
        for await (const entry of inner.records(prefix)) {
          await pass();
          yield entry;
        }
      },
    }),
    destination: <T extends Destination>(inner: T) =>
      override<Destination, T>(inner, {
        bootstrap: (...call) => around(() => inner.bootstrap(...call)),
        provision: (...call) => around(() => inner.provision(...call)),
        send: (...call) => around(() => inner.send(...call)),
        offboard: (...call) => around(() => inner.offboard(...call)),
        ...(inner.change !== undefined && {
          change: (...call: Parameters<NonNullable<Destination['change']>>) =>
            around(async () => {
              const outcome = await inner.change?.(...call);
              return outcome ?? { kind: 'retry', reason: 'cannot change' };
            }),
        }),
        ...(inner.late !== undefined && { late: mortalBiller(inner.late, around) }),
        ...(inner.verify !== undefined && {
          verify: (...call: Parameters<NonNullable<Destination['verify']>>) =>
            around(async () => {
              const outcome = await inner.verify?.(...call);
              return outcome ?? { kind: 'retry', reason: 'cannot verify' };
            }),
        }),
      }),
  };
}

function mortalBiller(
  inner: LateBiller,
  around: <T>(effect: () => Promise<T>) => Promise<T>,
): LateBiller {
  return {
    price: (...call) => around(() => inner.price(...call)),
    bill: (...call) => around(() => inner.bill(...call)),
  };
}
