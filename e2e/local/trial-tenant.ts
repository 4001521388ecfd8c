import { setTimeout } from 'node:timers/promises';
import { errorText } from '../../operator/model/error-text.ts';
import { isRecord } from '../../operator/model/is-record.ts';

/** The simulated tenant that pays beforehand: by the sample prices this lasts for one to two minutes of what it runs. */
export const TRIAL = { tenant: 'trial', amount: '0.10', currency: 'EUR' } as const;

/** A start that takes longer is worth a line. */
const PATIENCE_MS = 30_000;
const AGAIN_MS = 500;
const DIGITS = 9;

/** What the tenant can do. */
export interface Trial {
  /** To its own view, for an hour; undefined where there is no portal. */
  readonly link: string | undefined;
}

/**
 * Tops up the balance of the tenant, so that it runs out once in every run, and creates a token for its own view.
 * 1. A request that fails is repeated until the signal is aborted. The credit keeps its key, so that it counts once.
 * 2. A balance of an earlier run is topped up after the usage between the runs has been measured: the balance pays that too.
 *
 * Rejects only when the signal is aborted.
 */
export async function beginTrial(options: {
  /** Of the operator's API. */
  readonly address: string;
  readonly apiToken: string;
  readonly log: (line: string) => void;
  readonly signal: AbortSignal;
}): Promise<Trial> {
  const { address, signal } = options;
  const { tenant, amount, currency } = TRIAL;
  const query = async (path: string, body?: object): Promise<unknown> => {
    const response = await fetch(`${address}/api/v1/${path}`, {
      method: body === undefined ? 'GET' : 'POST',
      headers: {
        authorization: `Bearer ${options.apiToken}`,
        'content-type': 'application/json',
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      signal,
    });
    if (!response.ok) throw new Error(`${path}: ${response.status}: ${await response.text()}`);
    return response.json();
  };
  const repeat = repeated(options);
  const credits = `tenants/${tenant}/credits`;
  const began = await repeat(async () => timeOf(await query('status'), 'time'));
  const missing = await repeat(async () => {
    const status = await query('status');
    const left = leftOf(await query(credits));
    if (left === undefined) return Number(amount);
    const measured = timeOf(status, 'last_window_end');
    // Not the window in which the operator began: its usage may be on its way into the balance.
    const windowMs = Number(fieldOf(status, 'window_seconds')) * 1000;
    if (measured >= began + windowMs) return Number(amount) - left;
    throw new Error('usage since the last run is not measured yet');
  });
  const key = `make run, ${new Date().toISOString()}`;
  const credit = { key, amount: missing.toFixed(DIGITS), currency };
  if (Number(credit.amount) > 0) await repeat(() => query(credits, credit));
  const token = await query(`tenants/${tenant}/portal-tokens`, {}).catch(() => undefined);
  const link = fieldOf(token, 'link');
  return { link: typeof link === 'string' ? `${address}${link}` : undefined };
}

/** Returns what repeats an action until it succeeds. Logs once why that takes long. */
function repeated({
  log,
  signal,
}: {
  readonly log: (line: string) => void;
  readonly signal: AbortSignal;
}): <T>(action: () => Promise<T>) => Promise<T> {
  const due = performance.now() + PATIENCE_MS;
  let isLogged = false;
  return async (action) => {
    for (;;) {
      try {
        return await action();
      } catch (error) {
        if (!isLogged && performance.now() > due) {
          isLogged = true;
          log(`the tenant ${TRIAL.tenant} is not credited yet: ${errorText(error)}`);
        }
      }
      await setTimeout(AGAIN_MS, undefined, { signal });
    }
  };
}

/** What is left of the balance; undefined where nothing was credited. */
function leftOf(answer: unknown): number | undefined {
  const balances = fieldOf(answer, 'balances');
  if (!Array.isArray(balances)) throw new Error('credits: no balances');
  const own = balances.find((balance) => fieldOf(balance, 'currency') === TRIAL.currency);
  return own === undefined ? undefined : Number(fieldOf(own, 'left'));
}

/** Milliseconds since the epoch; NaN where there is none. */
function timeOf(answer: unknown, name: string): number {
  return Date.parse(String(fieldOf(answer, name)));
}

function fieldOf(value: unknown, name: string): unknown {
  return isRecord(value) ? value[name] : undefined;
}
