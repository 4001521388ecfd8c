import { setTimeout as delay } from 'node:timers/promises';
import { errorText } from '../../../operator/model/error-text.ts';
import type { Charge } from '../world/honest-estate.ts';
import { amountOf } from './truth.ts';
import type { Decision } from './evaluation.ts';

export interface BalancesOptions {
  readonly address: string;
  readonly token: string;
  /** Who pays beforehand, and what its balance counts. */
  readonly tenant: string;
  readonly metric: string;
  /** What the tenant is charged. */
  readonly charges: readonly Charge[];
  readonly decision: Decision;
  readonly isUp: () => boolean;
}

interface Balance {
  readonly credited: string;
  readonly used: string;
  readonly since: string;
}

type Poll =
  | { readonly kind: 'sound' }
  /** It may be sound when it is looked at again. */
  | { readonly kind: 'later'; readonly what: string }
  | { readonly kind: 'wrong'; readonly what: string };

const SOUND: Poll = { kind: 'sound' };
const AMOUNT = 10;
/** How often a credit is sent at once under one key, as by a shop that hears no answer. */
const REPEATS = 3;
const PATIENCE_MS = 60_000;
const AGAIN_MS = 250;
/** A window, its settling delay and what it may be late: then what was used is known again after a start. */
const BEHIND_MS = 30_000;
const ROUNDING = 1e-6;

/**
 * An honest tenant that pays beforehand, and is credited again and again: what it was credited with and what it has used must be the
 * truth, whatever others do meanwhile and whenever the operator is killed.
 */
export class Balances {
  readonly #options: BalancesOptions;
  #credits = 0;

  constructor(options: BalancesOptions) {
    this.#options = options;
  }

  /** Credits once, however often it has to be sent, and then looks at the balance. */
  async credit(): Promise<void> {
    this.#credits += 1;
    const { metric } = this.#options;
    const credit = { key: `honest-${this.#credits}`, amount: String(AMOUNT), metric };
    await this.#patiently('a credit that was not taken', async (): Promise<Poll> => {
      const sent = Array.from({ length: REPEATS }, () => this.#query(JSON.stringify(credit)));
      const answers = await Promise.all(sent);
      const isTaken = answers.every(({ status }) => status === 200);
      return isTaken ? SOUND : { kind: 'later', what: describe(answers) };
    });
    await this.poll();
  }

  /** Holds the balance against the truth. */
  async poll(): Promise<void> {
    await this.#patiently('its reported balance', async (): Promise<Poll> => {
      const requested = Date.now();
      const { status, body } = await this.#query();
      if (status !== 200) return { kind: 'later', what: describe([{ status, body }]) };
      const { balances, total } = JSON.parse(body) as {
        readonly balances: readonly Balance[];
        readonly total: number;
      };
      const [balance] = balances;
      if (balances.length !== 1 || balance === undefined || total !== this.#credits) {
        const what = `${total} credits in ${balances.length} balances, where there were ${this.#credits}`;
        return { kind: 'wrong', what };
      }
      return this.#compare(balance, requested, Date.now());
    });
  }

  /** What is wrong with a balance that was told between two moments. */
  #compare({ credited, used, since }: Balance, requested: number, reported: number): Poll {
    const expected = AMOUNT * this.#credits;
    const most = this.#usedBy(Date.parse(since), reported);
    const least = this.#usedBy(Date.parse(since), requested - BEHIND_MS);
    if (Number(credited) !== expected) {
      return { kind: 'wrong', what: `${credited} credited, where it was ${expected}` };
    }
    if (Number(used) > most + ROUNDING) {
      return { kind: 'wrong', what: `${used} used, where it was ${most} at most` };
    }
    if (Number(used) < least - ROUNDING) {
      return { kind: 'later', what: `${used} used, where it was ${least} at least` };
    }
    return SOUND;
  }

  #usedBy(start: number, end: number): number {
    const { charges, tenant, metric } = this.#options;
    return charges
      .filter((charge) => charge.tenant === tenant && charge.metric === metric)
      .reduce((sum, charge) => sum + amountOf(charge, { start, end }), 0);
  }

  /** Until it is sound; the time in which the operator is stopped does not count. */
  async #patiently(what: string, poll: () => Promise<Poll>): Promise<void> {
    const { decision, isUp, tenant } = this.#options;
    let leftMs = PATIENCE_MS;
    for (;;) {
      const seen = await poll();
      if (seen.kind === 'sound') return;
      if (seen.kind === 'wrong' || leftMs <= 0) {
        decision.fail('misbilled', `the prepaid balance of ${tenant}: ${what}: ${seen.what}`);
        return;
      }
      await delay(AGAIN_MS);
      if (isUp()) leftMs -= AGAIN_MS;
    }
  }

  async #query(body?: string): Promise<Answer> {
    const { address, token, tenant } = this.#options;
    try {
      const answer = await fetch(`${address}/api/v1/tenants/${tenant}/credits`, {
        method: body === undefined ? 'GET' : 'POST',
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        body,
        signal: AbortSignal.timeout(5_000),
      });
      return { status: answer.status, body: await answer.text() };
    } catch (error) {
      return { status: 0, body: errorText(error) };
    }
  }
}

interface Answer {
  readonly status: number;
  readonly body: string;
}

function describe(answers: readonly Answer[]): string {
  return answers.map(({ status, body }) => `${status} ${body.slice(0, 200)}`).join('; ');
}
