import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import type { LivePart } from '../windows/live-usage.ts';
import type { LiveCharge } from './account.ts';
import { LiveSums } from './live-sums.ts';

const TENANT = 'acme';
const METRIC = 'tenant_cpu_core_hours';
const NAMESPACE = 'tenant-a';

/** What happens, and how long it is after that until the next. */
const happenings = fc.array(
  fc.record({
    pod: fc.constantFrom('a', 'b', 'c'),
    /** What it uses from now on. */
    rate: fc.bigInt({ min: 0n, max: 3n }),
    /** Two charges: in another place it is charged as another. */
    zone: fc.constantFrom('one', 'two'),
    /** It is measured, a window is closed in memory, and the ledger has what was closed. */
    does: fc.constantFrom('measure', 'measure', 'close', 'append'),
    ms: fc.integer({ min: 0, max: 5 }),
  }),
  { maxLength: 60 },
);

interface Pod {
  zone: string;
  rate: bigint;
  /** By charge, in the window that is not closed. */
  readonly amounts: Map<string, bigint>;
}

/** What pods use, added up millisecond by millisecond. */
class NaivePods {
  readonly #pods = new Map<string, Pod>();
  now = 0;
  windowStart = 0;
  total = 0n;
  closed = 0n;

  pass(ms: number): void {
    for (const { zone, rate, amounts } of this.#pods.values()) {
      const added = rate * BigInt(ms);
      amounts.set(zone, (amounts.get(zone) ?? 0n) + added);
      this.total += added;
    }
    this.now += ms;
  }

  change(name: string, zone: string, rate: bigint): LivePart {
    const pod = this.#pods.get(name) ?? { zone, rate, amounts: new Map<string, bigint>() };
    this.#pods.set(name, pod);
    pod.zone = zone;
    pod.rate = rate;
    const zones = new Set([zone, ...pod.amounts.keys()]);
    const usage = [...zones].map((each) => {
      const identity = { tenant: TENANT, metric: METRIC, region: 'r', dimensions: { zone: each } };
      const goesOn = each === zone ? rate : 0n;
      const began = (pod.amounts.get(each) ?? 0n) - goesOn * BigInt(this.now - this.windowStart);
      return { identity, key: each, began, rate: goesOn };
    });
    return { scope: 'pods', windowStart: this.windowStart, usage };
  }

  close(): void {
    for (const { amounts } of this.#pods.values()) {
      for (const amount of amounts.values()) this.closed += amount;
      amounts.clear();
    }
    this.windowStart = this.now;
  }
}

test('what the ledger has and what goes on come to what is used, whatever changes before, while and after a window is closed', () => {
  fc.assert(
    fc.property(happenings, (all) => {
      const pods = new NaivePods();
      const sums = new LiveSums(() => true);
      const live = new Map<string, readonly LiveCharge[]>();
      const account = {
        setLive: (place: string, charges: readonly LiveCharge[]) => void live.set(place, charges),
      };
      let stored = 0n;
      for (const { pod, rate, zone, does, ms } of all) {
        if (does === 'measure') sums.put(NAMESPACE, pod, pods.change(pod, zone, rate));
        else if (does === 'close') pods.close();
        else {
          sums.close(new Map([['pods', pods.windowStart]]));
          stored = pods.closed;
        }
        sums.tell(TENANT, account);
        pods.pass(ms);
        let goesOn = 0n;
        for (const { amount, rate: each, at } of [...live.values()].flat()) {
          goesOn += amount + each * BigInt(pods.now - at);
        }
        expect(stored + goesOn).toBe(pods.total);
      }
      const anew = new Map<string, readonly LiveCharge[]>();
      const another = {
        setLive: (place: string, charges: readonly LiveCharge[]) => void anew.set(place, charges),
      };
      sums.tell(TENANT, another, true);
      const [present, whole] = [live, anew].map(
        (all) => new Map([...all].filter(([, charges]) => charges.length > 0)),
      );
      expect(whole).toStrictEqual(present);
      sums.forget(NAMESPACE);
      sums.tell(TENANT, account);
      expect([...live.values()].flat().filter((one) => one.rate !== 0n)).toStrictEqual([]);
    }),
    { numRuns: 1000 },
  );
});
