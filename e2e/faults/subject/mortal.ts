import type { Destination } from '../../../operator/destinations/destination.ts';
import { override } from '../../../operator/model/override.ts';
import type { Ledger, RecordChange } from '../../../operator/ledger/ledger.ts';
import type { IdleClock } from './idle-clock.ts';
import type { Mortality } from './mortality.ts';
import type { DeliveryStep } from './steps.ts';

/** What stands between the delivery engine and the world: it may die at every call, and time waits for calls. */
export interface Mortal {
  ledger(ledger: Ledger, options: { readonly withoutInFlight: boolean }): Ledger;
  destination(destination: Destination): Destination;
}

type Place = DeliveryStep extends `${infer Name}:before` ? Name : string;

const IN_FLIGHT = /\/in-flight$/;

export function createMortal(mortality: Mortality, clock: IdleClock): Mortal {
  const around = <T>(place: Place | undefined, effect: () => Promise<T>): Promise<T> =>
    clock.during(async () => {
      await mortality.call();
      if (place !== undefined) await mortality.step(`${place}:before` as DeliveryStep);
      const result = await effect();
      if (place !== undefined) await mortality.step(`${place}:after` as DeliveryStep);
      await mortality.call();
      return result;
    });

  return {
    ledger: (inner, { withoutInFlight }) => {
      const stored = (changes: readonly RecordChange[]): readonly RecordChange[] =>
        withoutInFlight ? changes.filter(({ key }) => !IN_FLIGHT.test(key)) : changes;
      return {
        ...inner,
        append: (batch) => around(undefined, () => inner.append(batch)),
        read: (after, limit) => around(undefined, () => inner.read(after, limit)),
        commitCursor: (destination, sequence, commit = {}) =>
          around('cursor', () =>
            inner.commitCursor(destination, sequence, {
              ...commit,
              ...(commit.records !== undefined && { records: stored(commit.records) }),
            }),
          ),
        moveCursor: (...call) => around(undefined, () => inner.moveCursor(...call)),
        retireCursor: (...call) => around(undefined, () => inner.retireCursor(...call)),
        dropCursor: (...call) => around(undefined, () => inner.dropCursor(...call)),
        record: (key) => around(undefined, () => inner.record(key)),
        writeRecords: (changes) => {
          const place = changes.some(({ key }) => IN_FLIGHT.test(key)) ? 'in-flight' : undefined;
          return around(place, () => inner.writeRecords(stored(changes)));
        },
        records: async function* (prefix) {
          yield* await around(undefined, () => Array.fromAsync(inner.records(prefix)));
        },
        retain: (now) => around(undefined, () => inner.retain(now)),
      };
    },
    destination: (inner) => {
      const { customers } = inner;
      const verify = inner.verify?.bind(inner);
      return override<Destination>(inner, {
        bootstrap: (...call) => around('bootstrap', () => inner.bootstrap(...call)),
        send: (...call) => around('send', () => inner.send(...call)),
        customers: customers && {
          provision: (...call) => around('provision', () => customers.provision(...call)),
          offboard: (...call) => around(undefined, () => customers.offboard(...call)),
        },
        verify: verify && ((...call) => around('verify', () => verify(...call))),
      });
    },
  };
}
