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
  /** From the moment at which its balance was used up, as told last before that, until its Namespace was marked; seconds. */
  readonly lateSeconds: number;
  /** What it had used beyond its balance when its Namespace was marked, in seconds of what it uses. */
  readonly overshootSeconds: number;
}

/** A balance as it stands. */
interface Look {
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly left: number;
  /** When nothing will be left if everything goes on; NaN where that is not told. */
  readonly usedUpAt: number;
}

/** When nothing will be left, and what is used in a millisecond. */
interface Forecast {
  readonly usedUpAt: number;
  readonly burn: number;
}

const DIGITS = 9;
/** What is left lasts so long. */
const LASTS_MS = 5_000;
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
    await this.#ask(`${pathOf(tenant)}/credits`, { key, amount, currency });
  }

  /** Whether it can be told by now when the tenant's balance will be used up. */
  async isCounted(tenant: number): Promise<boolean> {
    return Number.isFinite((await this.#look(tenant)).usedUpAt);
  }

  /** Takes so much credit back that the rest lasts five seconds, and watches what follows. */
  async useUp(tenant: number): Promise<Suspension> {
    const before = await this.#look(tenant);
    const burn = burnOf(before);
    await this.credit(tenant, 'taken-back', (burn * LASTS_MS - before.left).toFixed(DIGITS));
    let forecast: Forecast = { usedUpAt: Date.now() + LASTS_MS, burn };
    for (let looks = 0; looks < LASTS_MS / LOOK_MS - 1; looks += 1) {
      await delay(LOOK_MS);
      const look = await this.#look(tenant);
      // Until the operator has seen that credit was taken back it tells of days.
      const isNear = look.usedUpAt > look.at && look.usedUpAt < look.at + PATIENCE_MS;
      if (isNear) forecast = { usedUpAt: look.usedUpAt, burn: burnOf(look) };
    }
    const markedAt = await this.#markedAt(tenant);
    if (markedAt === undefined) {
      const seconds = PATIENCE_MS / 1000;
      return { isSuspended: false, lateSeconds: seconds, overshootSeconds: seconds };
    }
    const after = await this.#look(tenant);
    return {
      isSuspended: true,
      lateSeconds: (markedAt - forecast.usedUpAt) / 1000,
      overshootSeconds: (-after.left / forecast.burn - (after.at - markedAt)) / 1000,
    };
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

  async #look(tenant: number): Promise<Look> {
    const asked = Date.now();
    const [{ balances }, { budget }] = await Promise.all([
      this.#ask(`${pathOf(tenant)}/credits`),
      this.#ask(pathOf(tenant)),
    ]);
    const at = (asked + Date.now()) / 2;
    const [balance] = Array.isArray(balances) ? (balances as readonly unknown[]) : [];
    return {
      at,
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

  async #ask(path: string, body?: object): Promise<Readonly<Record<string, unknown>>> {
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

function burnOf({ at, left, usedUpAt }: Look): number {
  return left / (usedUpAt - at);
}

function pathOf(tenant: number): string {
  return `/api/v1/tenants/tenant-vcluster-${tenant}-cluster-${tenant}`;
}
