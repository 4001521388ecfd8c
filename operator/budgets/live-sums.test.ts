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
    /** It changes and is measured; a window ends, is closed in memory, and the ledger has what was closed. */
    does: fc.constantFrom('change', 'change', 'end', 'close', 'append'),
    ms: fc.integer({ min: 0, max: 5 }),
  }),
  { maxLength: 60 },
);

/** What a pod uses until the next one of its stretches. */
interface Stretch {
  readonly from: number;
  readonly zone: string;
  readonly rate: bigint;
}

/** What pods use, added up stretch by stretch. */
class NaivePods {
  readonly #pods = new Map<string, Stretch[]>();
  now = 0;
  /** Of the window that is not closed. */
  windowStart = 0;
  /** The end of that window, where it has come. */
  windowEnd: number | undefined;

  change(name: string, { zone, rate }: Pick<Stretch, 'zone' | 'rate'>): void {
    const stretches = this.#pods.get(name) ?? [];
    this.#pods.set(name, [...stretches, { from: this.now, zone, rate }]);
  }

  measure(name: string): LivePart {
    const stretches = this.#pods.get(name) ?? [];
    const last = stretches.at(-1);
    const usage = [...new Set(stretches.map(({ zone }) => zone))].map((zone) => {
      const identity = { tenant: TENANT, metric: METRIC, region: 'r', dimensions: { zone } };
      const rate = last?.zone === zone ? last.rate : 0n;
      const amount = amountOf(stretches, [this.windowStart, this.now], zone);
      return {
        identity,
        key: zone,
        began: amount - rate * BigInt(this.now - this.windowStart),
        rate,
      };
    });
    const isLate = this.windowEnd !== undefined && this.now > this.windowEnd;
    return { scope: 'pods', windowStart: this.windowStart, isLate, usage };
  }

  end(): void {
    if (this.now > this.windowStart) this.windowEnd ??= this.now;
  }

  close(): void {
    this.windowStart = this.windowEnd ?? this.windowStart;
    this.windowEnd = undefined;
  }

  usedUntil(moment: number): bigint {
    return [...this.#pods.values()].reduce((sum, one) => sum + amountOf(one, [0, moment]), 0n);
  }
}

function amountOf(
  stretches: readonly Stretch[],
  [from, to]: readonly [from: number, to: number],
  zone?: string,
): bigint {
  return stretches.reduce((sum, stretch, index) => {
    if (zone !== undefined && stretch.zone !== zone) return sum;
    const end = Math.min(to, stretches[index + 1]?.from ?? to);
    return sum + stretch.rate * BigInt(Math.max(0, end - Math.max(from, stretch.from)));
  }, 0n);
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
      const late = new Set<string>();
      const measure = (name: string): void => {
        const part = pods.measure(name);
        if (part.isLate) late.add(name);
        else late.delete(name);
        sums.put(NAMESPACE, name, part);
      };
      let appended = 0;
      const append = (): void => {
        const again = sums.close(new Map([['pods', pods.windowStart]]));
        for (const name of again.get(NAMESPACE) ?? []) measure(name);
        appended = pods.windowStart;
      };
      for (const { pod, rate, zone, does, ms } of all) {
        if (does === 'change') {
          // What was measured late is measured once more when its window is closed, before it changes.
          if (late.has(pod) && appended < pods.windowStart) append();
          pods.change(pod, { zone, rate });
          measure(pod);
        } else if (does === 'end') pods.end();
        else if (does === 'close') pods.close();
        else append();
        sums.tell(TENANT, account);
        pods.now += ms;
        let goesOn = 0n;
        for (const { amount, rate: each, at } of [...live.values()].flat()) {
          goesOn += amount + each * BigInt(pods.now - at);
        }
        expect(pods.usedUntil(appended) + goesOn).toBe(pods.usedUntil(pods.now));
      }
      const anew = new Map<string, readonly LiveCharge[]>();
      const another = {
        setLive: (place: string, charges: readonly LiveCharge[]) => void anew.set(place, charges),
      };
      sums.tell(TENANT, another, true);
      const [present, whole] = [live, anew].map(
        (told) => new Map([...told].filter(([, charges]) => charges.length > 0)),
      );
      expect(whole).toStrictEqual(present);
      sums.forget(NAMESPACE);
      sums.tell(TENANT, account);
      expect([...live.values()].flat().filter((one) => one.rate !== 0n)).toStrictEqual([]);
    }),
    { numRuns: 1000 },
  );
});
