import { hash } from 'node:crypto';
import type { Window } from '../../model/window.ts';
import { quantityOf } from './meters.ts';
import type { Settled } from './reversals.ts';
import {
  type EventNote,
  type EvidenceChanges,
  type LateShare,
  type TenantEvidence,
} from './evidence-changes.ts';
import { OpenSpans } from './open-spans.ts';
import { createNumbering, createSubjectKeys, round, subjectOf } from './subject.ts';
import { type Evidence, NO_SHARES } from './tally.ts';

interface ChargeLog {
  readonly number: number;
  open: OpenSpans;
}

/** Changes that are being collected. */
type Draft = {
  readonly [Name in keyof Omit<
    EvidenceChanges,
    'replacesEarlier'
  >]: EvidenceChanges[Name][number][];
} & { readonly amounts: { readonly spans: number[]; readonly nanos: number[] } };

/** The known charges of one tenant in one hour, so that only new evidence is listed. */
export class TenantLog {
  readonly #charges = new Map<string, ChargeLog>();
  #chargeCount = 0;
  #spanCount = 0;
  #again = true;

  close(settled: readonly Settled[], window: Window): Pick<TenantEvidence, 'changes' | 'amounts'> {
    const draft = emptyDraft();
    const numberOf = createSubjectNumbers(draft);
    for (const one of settled) {
      const log = this.#chargeLog(draft, one.charge.key);
      this.#closeCharge(draft, log, one, window, numberOf);
    }
    const { amounts, ...lists } = draft;
    if (Object.values(lists).every((list) => list.length === 0)) {
      return { changes: undefined, amounts };
    }
    const changes = this.#again ? { replacesEarlier: true as const, ...lists } : lists;
    this.#again = false;
    return { changes, amounts };
  }

  #closeCharge(
    draft: Draft,
    log: ChargeLog,
    settled: Settled,
    window: Window,
    subjectNumber: (evidence: Evidence) => number,
  ): void {
    const { evidence: all, rates, amounts } = settled.charge.shares ?? NO_SHARES;
    const inUnit = unitOf(settled);
    const windowMs = window.end - window.start;
    const before = log.open.matching(window.start);
    const open = new OpenSpans(window.end);
    const late: LateShare[] = [];
    for (const [index, evidence] of all.entries()) {
      const { object, from, to, carried } = evidence;
      const { uid, name } = object;
      const { node = null } = evidence.state;
      const quantity = inUnit(amounts[index] ?? 0);
      if (carried) {
        late.push([subjectNumber(evidence), node, uid, name, from, to, quantity]);
        continue;
      }
      const rate = rates[index];
      const goesOn = to === windowMs;
      const known = from === 0 ? before.take(evidence) : undefined;
      const number = known === undefined ? this.#spanCount : log.open.numberAt(known);
      const rateBefore = known === undefined ? rate : log.open.rateAt(known);
      if (known === undefined) {
        this.#spanCount += 1;
        const subject = subjectNumber(evidence);
        const rateText = rate === undefined ? null : String(rate);
        const until = goesOn ? null : to;
        draft.spans.push([log.number, subject, node, rateText, uid, name, from, until]);
      } else if (!goesOn) draft.ended.push([number, to]);
      if (rate === undefined || rate !== rateBefore) {
        draft.amounts.spans.push(number);
        draft.amounts.nanos.push(Math.round(quantity * 1e9));
      }
      if (!goesOn) continue;
      if (known === undefined) open.add(number, evidence, rate);
      else open.addFrom(log.open, known);
    }
    for (const number of before.left()) draft.ended.push([number, log.open.reached - window.start]);
    log.open = open.complete();
    const note = noteOf(settled, log.number, late);
    if (note !== undefined) draft.notes.push(note);
  }

  #chargeLog(draft: Draft, key: string): ChargeLog {
    // A digest takes less memory than the key.
    const digest = hash('sha1', key, 'base64url');
    const known = this.#charges.get(digest);
    if (known !== undefined) return known;
    const log = { number: this.#chargeCount, open: new OpenSpans(-Infinity) };
    this.#chargeCount += 1;
    this.#charges.set(digest, log);
    draft.charges.push(key);
    return log;
  }
}

/** Returns a function that numbers subjects, and lists each subject once. */
function createSubjectNumbers(draft: Draft): (evidence: Evidence) => number {
  const keyOf = createSubjectKeys();
  let current: Evidence | undefined;
  const numberOf = createNumbering<string>(() => {
    if (current !== undefined) draft.subjects.push(subjectOf(current));
  });
  return (evidence) => {
    current = evidence;
    return numberOf(keyOf(evidence));
  };
}

/** Returns an event's note; undefined if nothing is carried, reversed or left out. */
function noteOf(
  settled: Settled,
  number: number,
  late: readonly LateShare[],
): EventNote | undefined {
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

/** Returns a function from amounts (nano-units × milliseconds) to the unit of the event. */
function unitOf({ charge }: Settled): (amount: number) => number {
  const divisor = Number(quantityOf(charge.identity.metric).divisor);
  return (amount) => round(amount / divisor / 1e9);
}

function emptyDraft(): Draft {
  return {
    charges: [],
    subjects: [],
    spans: [],
    ended: [],
    notes: [],
    amounts: { spans: [], nanos: [] },
  };
}
