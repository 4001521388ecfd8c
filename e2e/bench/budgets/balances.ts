import { setTimeout as delay } from 'node:timers/promises';
import { isRecord } from '../../../operator/model/is-record.ts';
import { SUSPENDED_PATH } from '../scale/marks.ts';

/** The API of the operator that is measured, and that of its cluster. */
export interface BalanceOptions {
  readonly address: string;
  readonly token: string;
  readonly currency: string;
  readonly apiPort: number;
}

/** How the suspension of one tenant went. Who is not suspended in half a minute has taken that long. */
export interface Suspension {
  readonly isSuspended: boolean;
  /** From the moment at which nothing was to be left, by the last forecast before it, until its Namespace was marked; seconds. */
  readonly lateSeconds: number;
}

/** A balance by the newest closed window. */
interface Poll {
  readonly left: number;
  /** When nothing will be left if everything goes on, milliseconds since the epoch; NaN where that is not known. */
  readonly usedUpAt: number;
}

const DIGITS = 9;
/** What is left lasts so long. */
const LASTS_MS = 5_000;
/** How often more is taken back at most. */
const STEPS = 3;
const LOOK_MS = 1_000;
const POLL_MS = 100;
const PATIENCE_MS = 30_000;

/** Prepaid balances of the tenants of the stand-in, looked at from outside. */
export class Balances {
  readonly #options: BalanceOptions;

  constructor(options: BalanceOptions) {
    this.#options = options;
  }

  async credit(tenant: number, key: string, amount: string): Promise<void> {
    const { currency } = this.#options;
    await this.#query(`${pathOf(tenant)}/credits`, { key, amount, currency });
  }

  /** Whether it can be told by now when the tenant's balance will be used up. */
  async isCounted(tenant: number): Promise<boolean> {
    return Number.isFinite((await this.#poll(tenant)).usedUpAt);
  }

  /** Takes so much credit back that the rest lasts five seconds, and watches what follows. */
  async useUp(tenant: number): Promise<Suspension> {
    const before = await this.#poll(tenant);
    const half = before.left / 2;
    await this.credit(tenant, 'taken-back-first', (-half).toFixed(DIGITS));
    const then = await this.#changed(tenant, before);
    const burn = half / (before.usedUpAt - then.usedUpAt);
    const spare = burn * (then.usedUpAt - Date.now() - LASTS_MS);
    await this.credit(tenant, 'taken-back', (-spare).toFixed(DIGITS));
    let { usedUpAt } = await this.#nearlyUsedUp(tenant, await this.#changed(tenant, then));
    for (let polls = 0; polls < LASTS_MS / LOOK_MS - 1; polls += 1) {
      await delay(LOOK_MS);
      const poll = await this.#poll(tenant);
      if (poll.usedUpAt > Date.now()) ({ usedUpAt } = poll);
    }
    const markedAt = await this.#markedAt(tenant);
    if (markedAt === undefined) return { isSuspended: false, lateSeconds: PATIENCE_MS / 1000 };
    return { isSuspended: true, lateSeconds: (markedAt - usedUpAt) / 1000 };
  }

  /**
   * Takes back what a window that closed meanwhile leaves over: a rate that differs by a thousandth
   * makes minutes of a balance that lasts for days.
   */
  async #nearlyUsedUp(tenant: number, balance: Poll): Promise<Poll> {
    let poll = balance;
    for (let step = 0; step < STEPS && poll.usedUpAt > Date.now() + 2 * LASTS_MS; step += 1) {
      const spare = poll.left * (1 - LASTS_MS / (poll.usedUpAt - Date.now()));
      await this.credit(tenant, `taken-back-${step}`, (-spare).toFixed(DIGITS));
      poll = await this.#changed(tenant, poll);
    }
    return poll;
  }

  /** The balance when the operator has seen that credit was taken back. */
  async #changed(tenant: number, before: Poll): Promise<Poll> {
    const until = Date.now() + PATIENCE_MS;
    while (Date.now() < until) {
      const poll = await this.#poll(tenant);
      if (poll.usedUpAt < before.usedUpAt - LOOK_MS) return poll;
      await delay(POLL_MS);
    }
    throw new Error(`budgets: the balance of tenant ${tenant} does not change`);
  }

  async #markedAt(tenant: number): Promise<number | undefined> {
    const until = Date.now() + PATIENCE_MS;
    while (Date.now() < until) {
      const markedAt = (await this.#suspended())[`vcluster-${tenant}`];
      if (typeof markedAt === 'number') return markedAt;
      await delay(POLL_MS);
    }
    return undefined;
  }

  async #poll(tenant: number): Promise<Poll> {
    const [{ balances }, { budget }] = await Promise.all([
      this.#query(`${pathOf(tenant)}/credits`),
      this.#query(pathOf(tenant)),
    ]);
    const [balance] = Array.isArray(balances) ? (balances as readonly unknown[]) : [];
    return {
      left: Number(isRecord(balance) ? balance['left'] : Number.NaN),
      usedUpAt: Date.parse(String(isRecord(budget) ? budget['used_up_at'] : undefined)),
    };
  }

  async #suspended(): Promise<Readonly<Record<string, unknown>>> {
    const { apiPort } = this.#options;
    const response = await fetch(`http://127.0.0.1:${apiPort}${SUSPENDED_PATH}`);
    const answer: unknown = await response.json();
    return isRecord(answer) ? answer : {};
  }

  async #query(path: string, body?: object): Promise<Readonly<Record<string, unknown>>> {
    const { address, token } = this.#options;
    const response = await fetch(`${address}${path}`, {
      method: body === undefined ? 'GET' : 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    if (!response.ok) throw new Error(`budgets: ${path}: ${await response.text()}`);
    const answer: unknown = await response.json();
    return isRecord(answer) ? answer : {};
  }
}

function pathOf(tenant: number): string {
  return `/api/v1/tenants/tenant-vcluster-${tenant}-cluster-${tenant}`;
}
