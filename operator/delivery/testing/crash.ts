import type { Destination, Plans } from '../../destinations/destination.ts';
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
 * Dies after so many awaits on the ledger or the destination. Each call counts twice, before and
 * after its effect, so that it may die with the effect done and nobody told.
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
    destination: <T extends Destination>(inner: T) => {
      const { customers, plans, late } = inner;
      const verify = inner.verify?.bind(inner);
      return override<Destination, T>(inner, {
        bootstrap: (...call) => around(() => inner.bootstrap(...call)),
        send: (...call) => around(() => inner.send(...call)),
        verify: verify && ((...call) => around(() => verify(...call))),
        customers: customers && {
          provision: (...call) => around(() => customers.provision(...call)),
          offboard: (...call) => around(() => customers.offboard(...call)),
        },
        plans:
          plans &&
          override<Plans>(plans, { change: (...call) => around(() => plans.change(...call)) }),
        late: late && {
          price: (...call) => around(() => late.price(...call)),
          bill: (...call) => around(() => late.bill(...call)),
        },
      });
    },
  };
}
