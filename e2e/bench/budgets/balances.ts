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

/** How the suspension of one tenant went. */
export interface Suspension {
  /** From the moment at which its balance was used up, as told a second before, until its Namespace was marked; seconds. */
  readonly lateSeconds: number;
  /** What it had used beyond its balance when its Namespace was marked, in seconds of what it uses. */
  readonly overshootSeconds: number;
}

interface Reading {
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly left: number;
}

const DIGITS = 9;
/** Between two readings of a balance that tell how fast it goes. */
const BURN_MS = 2_000;
/** What is left by then, at this rate. */
const LASTS_MS = 5_000;
const LOOK_AHEAD_MS = 1_000;
const POLL_MS = 100;
/** Whoever is not suspended by then never will be. */
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

  /** Whether the tenant has an account of its balance by now. */
  async isCounted(tenant: number): Promise<boolean> {
    return typeof (await this.#budget(tenant))['period_start'] === 'string';
  }

  /**
   * Takes so much credit back that the balance is used up in some seconds, and watches what follows; undefined where the tenant is not
   * suspended half a minute after that.
   */
  async useUp(tenant: number): Promise<Suspension | undefined> {
    const first = await this.#read(tenant);
    await delay(BURN_MS);
    const last = await this.#read(tenant);
    const kept = ((first.left - last.left) / (last.at - first.at)) * LASTS_MS;
    await this.credit(tenant, 'taken-back', (kept - last.left).toFixed(DIGITS));
    await delay(LASTS_MS - LOOK_AHEAD_MS);
    const budget = await this.#budget(tenant);
    const usedUpAt = Date.parse(String(budget['used_up_at']));
    const ahead = await this.#read(tenant);
    const burn = ahead.left / (usedUpAt - ahead.at);
    const markedAt = await this.#markedAt(tenant);
    if (markedAt === undefined) return undefined;
    const after = await this.#read(tenant);
    return {
      lateSeconds: (markedAt - usedUpAt) / 1000,
      overshootSeconds: (-after.left / burn - (after.at - markedAt)) / 1000,
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

  async #read(tenant: number): Promise<Reading> {
    const asked = Date.now();
    const { balances } = await this.#ask(`${pathOf(tenant)}/credits`);
    const at = (asked + Date.now()) / 2;
    const [balance] = Array.isArray(balances) ? (balances as readonly unknown[]) : [];
    return { at, left: Number(isRecord(balance) ? balance['left'] : Number.NaN) };
  }

  async #budget(tenant: number): Promise<Readonly<Record<string, unknown>>> {
    const { budget } = await this.#ask(pathOf(tenant));
    return isRecord(budget) ? budget : {};
  }

  async #suspended(): Promise<Readonly<Record<string, unknown>>> {
    const { apiPort } = this.#options;
    const answer: unknown = await (
      await fetch(`http://127.0.0.1:${apiPort}${SUSPENDED_PATH}`)
    ).json();
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

function pathOf(tenant: number): string {
  return `/api/v1/tenants/tenant-vcluster-${tenant}-cluster-${tenant}`;
}
