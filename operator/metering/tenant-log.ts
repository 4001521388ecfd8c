import { quantityOf } from '../model/catalog.ts';
import type { Window } from '../model/window.ts';
import type { Settled } from './credits.ts';
import {
  type EventNote,
  type EvidenceChanges,
  NUMBERED,
  type Share,
  type TenantEvidence,
} from './evidence-changes.ts';
import { OpenSpans } from './open-spans.ts';
import { createSubjectKeys, round, subjectOf } from './subject.ts';
import { type Evidence, identityKey, NO_SHARES } from './tally.ts';

/** Open spans of what has had no event for so long, and for two windows, are forgotten. */
const OLD_MS = 2 * 3_600_000;

interface ChargeLog {
  readonly number: number;
  /** When it had its last event, milliseconds since the epoch. */
  seenAt: number;
  open: OpenSpans;
}

/** Changes under way. */
type Draft = {
  readonly [Name in keyof Omit<EvidenceChanges, 'afresh'>]: EvidenceChanges[Name][number][];
} & { readonly amounts: { readonly spans: number[]; readonly nanos: number[] } };

/** What is known of one tenant's charges, so that only what is new of them is told. */
export class TenantLog {
  readonly #charges = new Map<string, ChargeLog>();
  readonly #subjects = new Numbers<string>();
  readonly #nodes = new Numbers<string>();
  readonly #rates = new Numbers<bigint>();
  #chargeCount = 0;
  #spanCount = 0;
  #afresh = true;
  #seenAt = -Infinity;

  isOld(now: number, window: Window): boolean {
    return isOld(this.#seenAt, now, window);
  }

  close(settled: readonly Settled[], window: Window, now: number): Omit<TenantEvidence, 'tenant'> {
    this.#seenAt = now;
    for (const [key, { seenAt }] of this.#charges) {
      if (isOld(seenAt, now, window)) this.#charges.delete(key);
    }
    const draft = emptyDraft();
    const numbersOf = this.#createObjectNumbers(draft);
    for (const one of settled) {
      const log = this.#chargeLog(draft, identityKey(one.charge.identity));
      log.seenAt = now;
      this.#closeCharge(draft, log, one, window, numbersOf);
    }
    const { amounts, ...lists } = draft;
    if (Object.values(lists).every((list) => list.length === 0)) {
      return { changes: undefined, amounts };
    }
    const changes = this.#afresh ? { afresh: true as const, ...lists } : lists;
    this.#afresh = false;
    return { changes, amounts };
  }

  #closeCharge(
    draft: Draft,
    log: ChargeLog,
    settled: Settled,
    window: Window,
    numbersOf: (evidence: Evidence) => ObjectNumbers,
  ): void {
    const { evidence: all, rates, amounts } = settled.charge.shares ?? NO_SHARES;
    const inUnit = unitOf(settled);
    const windowMs = window.end - window.start;
    const before = log.open.matching(window.start);
    const open = new OpenSpans(window.end);
    const late: Share[] = [];
    for (const [index, evidence] of all.entries()) {
      const { object, from, to, carried } = evidence;
      const quantity = inUnit(amounts[index] ?? 0);
      if (carried) {
        const { subject, node } = numbersOf(evidence);
        late.push([subject, object.uid, object.name, node, from, to, quantity, 1]);
        continue;
      }
      const rate = rates[index];
      const goesOn = to === windowMs;
      const known = from === 0 ? before.take(evidence) : undefined;
      const span = known ?? { number: this.#spanCount, evidence, rate };
      if (known === undefined) {
        this.#spanCount += 1;
        const { subject, node } = numbersOf(evidence);
        const rateNumber = rate === undefined ? null : this.#rateNumber(draft, rate);
        const bounds = [from, goesOn ? null : to] as const;
        const { uid, name } = object;
        draft.spans.push([log.number, subject, node, rateNumber, uid, name, ...bounds]);
      } else if (!goesOn) draft.ended.push([span.number, to]);
      if (rate === undefined || rate !== span.rate) {
        draft.amounts.spans.push(span.number);
        draft.amounts.nanos.push(Math.round(quantity * 1e9));
      }
      if (goesOn) open.add(span);
    }
    for (const number of before.left()) draft.ended.push([number, log.open.reached - window.start]);
    log.open = open;
    const note = noteOf(settled, log.number, late);
    if (note !== undefined) draft.notes.push(note);
  }

  #chargeLog(draft: Draft, key: string): ChargeLog {
    const known = this.#charges.get(key);
    if (known !== undefined) return known;
    const log = { number: this.#chargeCount, seenAt: 0, open: new OpenSpans(-Infinity) };
    this.#chargeCount += 1;
    this.#charges.set(key, log);
    draft.charges.push(key);
    return log;
  }

  #createObjectNumbers(draft: Draft): (evidence: Evidence) => ObjectNumbers {
    const keyOf = createSubjectKeys();
    const subjects = new Map<string, number>();
    const subjectNumber = (evidence: Evidence): number => {
      const key = keyOf(evidence);
      const found = subjects.get(key);
      if (found !== undefined) return found;
      const subject = subjectOf(evidence);
      const number = this.#subjects.of(JSON.stringify(subject), () => {
        draft.subjects.push(subject);
      });
      subjects.set(key, number);
      return number;
    };
    return (evidence) => {
      const { node: name } = evidence.state;
      const onFirst = (of: string): void => void draft.nodes.push(of);
      const node = name === undefined ? null : this.#nodes.of(name, onFirst);
      return { subject: subjectNumber(evidence), node };
    };
  }

  #rateNumber(draft: Draft, rate: bigint): number {
    return this.#rates.of(rate, () => void draft.rates.push(String(rate)));
  }
}

interface ObjectNumbers {
  readonly subject: number;
  readonly node: number | null;
}

/** Gives equal values one number, in the order of their first use. */
class Numbers<T> {
  readonly #numbers = new Map<T, number>();
  #next = 0;

  of(value: T, onFirst: (value: T) => void): number {
    const known = this.#numbers.get(value);
    if (known !== undefined) return known;
    if (this.#numbers.size >= NUMBERED) this.#numbers.clear();
    onFirst(value);
    this.#numbers.set(value, this.#next);
    this.#next += 1;
    return this.#next - 1;
  }
}

/** Undefined where the spans alone say everything: nothing carried, given back or left out. */
function noteOf(settled: Settled, number: number, late: readonly Share[]): EventNote | undefined {
  const { charge, total } = settled;
  const { rest } = charge.shares ?? NO_SHARES;
  const givenBack = total - charge.amount - charge.carried;
  const plain = charge.carried === 0n && givenBack === 0n && rest.count === 0;
  if (plain && late.length === 0) return undefined;
  const inUnit = unitOf(settled);
  return {
    charge: number,
    measured: inUnit(Number(charge.amount)),
    carried: inUnit(Number(charge.carried)),
    givenBack: inUnit(Number(givenBack)),
    shares: late,
    rest: { count: rest.count, quantity: inUnit(rest.amount) },
  };
}

/** Amounts (nano-units × milliseconds) in the unit of the event. */
function unitOf({ charge }: Settled): (amount: number) => number {
  const divisor = Number(quantityOf(charge.identity.metric).divisor);
  return (amount) => round(amount / divisor / 1e9);
}

function isOld(seenAt: number, now: number, { start, end }: Window): boolean {
  return now - seenAt > OLD_MS + 2 * (end - start);
}

function emptyDraft(): Draft {
  return {
    charges: [],
    subjects: [],
    nodes: [],
    rates: [],
    spans: [],
    ended: [],
    notes: [],
    amounts: { spans: [], nanos: [] },
  };
}
