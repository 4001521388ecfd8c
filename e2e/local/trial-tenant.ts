import { setTimeout } from 'node:timers/promises';
import { isRecord } from '../../operator/model/is-record.ts';

/** The simulated tenant that pays beforehand: by the sample prices this lasts for one to two minutes of what it runs. */
export const TRIAL = { tenant: 'trial', amount: '0.10', currency: 'EUR' } as const;

const PATIENCE_MS = 30_000;
const AGAIN_MS = 500;
const DIGITS = 9;

/** What the tenant can do. */
export interface Trial {
  /** To its own view, for an hour; undefined where there is no portal. */
  readonly link: string | undefined;
}

/**
 * Tops the balance of the tenant up, so that it runs out once in every run, and makes a token for its own view. Undefined where
 * the operator does not know the tenant, or its balance, in half a minute; rejects where it refuses either.
 */
export async function beginTrial(
  address: string,
  apiToken: string,
  signal: AbortSignal,
): Promise<Trial | undefined> {
  const query = async (path: string, body?: object): Promise<unknown> => {
    const response = await fetch(`${address}/api/v1/tenants/${TRIAL.tenant}/${path}`, {
      method: body === undefined ? 'GET' : 'POST',
      headers: { authorization: `Bearer ${apiToken}`, 'content-type': 'application/json' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      signal,
    });
    if (body !== undefined && !response.ok) throw new Error(await response.text());
    return response.json();
  };
  const until = performance.now() + PATIENCE_MS;
  while (performance.now() < until) {
    const left = leftOf(await query('credits'));
    if (left !== undefined) {
      const missing = Number(TRIAL.amount) - left;
      if (missing > 0) {
        const key = `make run, ${new Date().toISOString()}`;
        const { currency } = TRIAL;
        await query('credits', { key, amount: missing.toFixed(DIGITS), currency });
      }
      const link = fieldOf(await query('portal-tokens', {}), 'link');
      return { link: typeof link === 'string' ? `${address}${link}` : undefined };
    }
    await setTimeout(AGAIN_MS, undefined, { signal });
  }
  return undefined;
}

/** What is left of the balance; nothing where nothing was credited, undefined where the answer is another one. */
function leftOf(answer: unknown): number | undefined {
  const balances = fieldOf(answer, 'balances');
  if (!Array.isArray(balances)) return undefined;
  const own = balances.find((balance) => fieldOf(balance, 'currency') === TRIAL.currency);
  return own === undefined ? 0 : Number(fieldOf(own, 'left'));
}

function fieldOf(value: unknown, name: string): unknown {
  return isRecord(value) ? value[name] : undefined;
}
