import { quantityOf } from '../model/catalog.ts';
import type { ChargeIdentity } from '../metering/tally.ts';
import type { LivePart } from '../windows/live-usage.ts';
import type { BudgetAccount, CountedUsage, LiveCharge } from './account.ts';

/** What one charge of a tenant comes to in one window, all parts together; as {@link LiveUsage} says. */
interface LiveLine {
  began: bigint;
  rate: bigint;
}

/** One charge of a tenant. */
interface LiveSum {
  readonly tenant: string;
  readonly scope: string;
  /** Unique among all. */
  readonly name: string;
  readonly usage: CountedUsage;
  readonly divisor: bigint;
  /** By the beginning of the window: of one that is closed the ledger does not have everything yet. */
  readonly lines: Map<number, LiveLine>;
  /** How many parts it is made of. */
  parts: number;
  /** Shares of what has gone on since before its window, by rate: there is one for each pod, and most are alike. */
  readonly alike: Map<bigint, Share>;
}

/** What a part has added to a charge. */
interface Share {
  readonly sum: LiveSum;
  readonly began: bigint;
  readonly rate: bigint;
}

/** What a part has added. */
type Added = Pick<LivePart, 'scope' | 'windowStart' | 'isLate'> & {
  readonly usage: readonly Share[];
};

/** Rates are few where requests are billed, and as many as pods where samples are. */
const MOST_ALIKE = 32;

/**
 * What goes on of all tenants, added up by charge from parts that are measured by themselves, such as pods. Another
 * measure of a part costs as much as the part is large, whatever else its tenant runs; so does the end of a window, by charges.
 */
export class LiveSums {
  readonly #counts: (usage: Pick<ChargeIdentity, 'tenant' | 'metric'>) => boolean;
  /** By namespace and name. */
  readonly #parts = new Map<string, Map<string, Added>>();
  readonly #sums = new Map<string, LiveSum>();
  readonly #byTenant = new Map<string, Set<LiveSum>>();
  /** Those that an account does not have as they are. */
  readonly #changed = new Map<string, Set<LiveSum>>();
  /** By namespace the parts that hold for their window only: nothing of them goes on any more, or they have changed after it. */
  readonly #brief = new Map<string, Set<string>>();
  /** Up to where the ledger has windows. */
  #ends: ReadonlyMap<string, number> = new Map();

  /** `counts` says what anybody asks for. */
  constructor(counts: (usage: Pick<ChargeIdentity, 'tenant' | 'metric'>) => boolean) {
    this.#counts = counts;
  }

  /** The names of all parts of a namespace. */
  namesIn(namespace: string): Iterable<string> {
    return this.#parts.get(namespace)?.keys() ?? [];
  }

  /** Measured anew: what it added before it does not add any more. */
  put(namespace: string, name: string, part: LivePart): void {
    const parts = this.#parts.get(namespace) ?? new Map<string, Added>();
    this.#parts.set(namespace, parts);
    const before = parts.get(name);
    if (before !== undefined) this.#take(before, part.windowStart);
    const { scope, windowStart, isLate } = part;
    const counted = part.usage.filter(({ identity }) => this.#counts(identity));
    const usage = counted.map(({ identity, key, began, rate }) => {
      const sum = this.#sumOf(scope, key, identity);
      addTo(sum, windowStart, { began, rate });
      sum.parts += 1;
      this.#noteChange(sum);
      return shareOf(sum, began, rate);
    });
    const added = { scope, windowStart, isLate, usage };
    if (usage.length === 0) parts.delete(name);
    else parts.set(name, added);
    // What was the same since before its window is so beyond its end, too.
    const isBent = isLate && usage.some(({ began }) => began !== 0n);
    if (isBent || (usage.length > 0 && !goesOn(added)))
      this.#brief.set(namespace, (this.#brief.get(namespace) ?? new Set()).add(name));
    else this.#brief.get(namespace)?.delete(name);
  }

  /** Nobody asks for a namespace any more. */
  forget(namespace: string): void {
    for (const added of this.#parts.get(namespace)?.values() ?? []) this.#take(added, undefined);
    this.#parts.delete(namespace);
    this.#brief.delete(namespace);
  }

  /** The same of all tenants but these. */
  keepOnly(tenants: { has(tenant: string): boolean }): void {
    for (const tenant of this.#changed.keys()) {
      if (!tenants.has(tenant)) this.#changed.delete(tenant);
    }
  }

  /**
   * The ledger is about to have all windows up to these ends, by scope: what goes on counts from there on, at the rate that
   * it has. Gives by namespace the parts that are to be measured once more, since they changed after an end.
   */
  close(ends: ReadonlyMap<string, number>): ReadonlyMap<string, readonly string[]> {
    this.#ends = ends;
    for (const sum of this.#sums.values()) {
      const end = this.#endOf(sum.scope);
      const closed = [...sum.lines].filter(([windowStart]) => windowStart < end);
      if (closed.length === 0) continue;
      for (const [windowStart, { rate }] of closed) {
        sum.lines.delete(windowStart);
        addTo(sum, end, { began: 0n, rate });
      }
      this.#noteChange(sum);
    }
    const bent = [...this.#brief.keys()].map((each) => [each, this.#closeBrief(each)] as const);
    return new Map(bent.filter(([, names]) => names.length > 0));
  }

  /** The tenants whose account does not have everything as it is. */
  changed(): Iterable<string> {
    return this.#changed.keys();
  }

  /** Tells the account of a tenant what has changed since it was told last; `isNew` tells all that goes on. */
  tell(tenant: string, account: Pick<BudgetAccount, 'setLive'>, isNew = false): void {
    const sums = (isNew ? this.#byTenant : this.#changed).get(tenant) ?? [];
    for (const sum of sums) account.setLive(sum.name, chargesOf(sum));
    this.#changed.delete(tenant);
  }

  /** Forgets what has ended by then. Gives what is to be measured once more. */
  #closeBrief(namespace: string): readonly string[] {
    const [parts, names] = [this.#parts.get(namespace), this.#brief.get(namespace)];
    const late: string[] = [];
    for (const name of names ?? []) {
      const added = parts?.get(name);
      if (added !== undefined && added.windowStart >= this.#endOf(added.scope)) continue;
      names?.delete(name);
      if (added === undefined) continue;
      if (added.isLate) late.push(name);
      if (goesOn(added)) continue;
      this.#take(added, undefined);
      parts?.delete(name);
    }
    return late;
  }

  /** `until` is the beginning of the window in which it goes on as something else; undefined where it never was. */
  #take({ scope, windowStart, usage }: Added, until: number | undefined): void {
    const end = this.#endOf(scope);
    const start = Math.max(windowStart, end);
    for (const { sum, began, rate } of usage) {
      // Of a window that is closed the ledger has what it began with; of one that it does not have yet, that stays until it has.
      const isBilled = until !== undefined && until > start;
      const rest = isBilled ? -rate * BigInt(until - start) : windowStart < end ? 0n : began;
      addTo(sum, start, { began: -rest, rate: -rate });
      sum.parts -= 1;
      this.#noteChange(sum);
    }
  }

  #sumOf(scope: string, key: string, identity: ChargeIdentity): LiveSum {
    const name = `${scope} ${key}`;
    const known = this.#sums.get(name);
    if (known !== undefined) return known;
    const { divisor, unit } = quantityOf(identity.metric);
    const usage = { ...identity, unit };
    const { tenant } = identity;
    const made = { lines: new Map(), parts: 0, alike: new Map() };
    const sum: LiveSum = { tenant, scope, name, usage, divisor, ...made };
    this.#sums.set(name, sum);
    this.#byTenant.set(tenant, (this.#byTenant.get(tenant) ?? new Set()).add(sum));
    return sum;
  }

  #noteChange(sum: LiveSum): void {
    const { tenant } = sum;
    this.#changed.set(tenant, (this.#changed.get(tenant) ?? new Set()).add(sum));
    if (sum.parts > 0 || sum.lines.size > 0) return;
    this.#sums.delete(sum.name);
    this.#byTenant.get(tenant)?.delete(sum);
  }

  /** A namespace that was apart is closed with its kind's again. */
  #endOf(scope: string): number {
    const [kind = ''] = scope.split('/');
    return this.#ends.get(scope) ?? this.#ends.get(kind) ?? Number.NEGATIVE_INFINITY;
  }
}

function goesOn({ usage }: Added): boolean {
  return usage.some(({ rate }) => rate > 0n);
}

function addTo({ lines }: LiveSum, windowStart: number, { began, rate }: LiveLine): void {
  const line = lines.get(windowStart);
  if (line === undefined) {
    if (began !== 0n || rate !== 0n) lines.set(windowStart, { began, rate });
    return;
  }
  line.began += began;
  line.rate += rate;
  if (line.began === 0n && line.rate === 0n) lines.delete(windowStart);
}

function shareOf(sum: LiveSum, began: bigint, rate: bigint): Share {
  const known = began === 0n ? sum.alike.get(rate) : undefined;
  if (known !== undefined) return known;
  const share = { sum, began, rate };
  if (began === 0n && sum.alike.size < MOST_ALIKE) sum.alike.set(rate, share);
  return share;
}

function chargesOf({ usage, divisor, lines }: LiveSum): readonly LiveCharge[] {
  return [...lines].map(([windowStart, { began, rate }]) => {
    return { usage, windowStart, amount: began, at: windowStart, rate, divisor };
  });
}
