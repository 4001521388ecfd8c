import { type Exact, exact, minus, textOf } from '../exact.ts';
import { instant, isObject, objects, text } from './answers.ts';
import type { Applied, Balance, Contract, InvoiceLine, MetronomeState } from './state.ts';

/**
 * Reads `commits` and `credits` of a creation or an edit of a contract. Each is available in one
 * time range.
 */
export function readBalances(
  state: MetronomeState,
  commits: unknown,
  credits: unknown,
  at: number,
): readonly Balance[] {
  const read = (type: Balance['type'], input: Readonly<Record<string, unknown>>): Balance => {
    const access = isObject(input['access_schedule']) ? input['access_schedule'] : {};
    const [item = {}] = objects(access['schedule_items']);
    const from = instant(item['starting_at']) ?? at;
    const { amount } = item;
    return {
      id: text(input['id']) ?? state.nextId(),
      type,
      amount: exact(typeof amount === 'number' ? String(amount) : '0'),
      from,
      to: instant(item['ending_before']) ?? Number.POSITIVE_INFINITY,
      paidAt: type === 'PREPAID' ? from : undefined,
    };
  };
  return [
    ...objects(commits).map((one) => read('PREPAID', one)),
    ...objects(credits).map((one) => read('CREDIT', one)),
  ];
}

/**
 * Returns the amounts that the lines of a statement `[from, to)` draw. They draw in order, from the
 * remainder of final invoices.
 */
export function drawn(
  state: MetronomeState,
  contract: Contract,
  lines: readonly InvoiceLine[],
  from: number,
  to: number,
): readonly Applied[] {
  const applied: Applied[] = [];
  const usable = contract.balances
    .filter((one) => one.from < to && one.to > from)
    .map((balance) => ({ balance, left: leftOf(state, balance) }));
  for (const line of lines) {
    let due = line.total;
    for (const one of usable) {
      const amount = lesser(due, one.left);
      if (amount.digits <= 0n) continue;
      applied.push({ balance: one.balance, line, amount });
      one.left = minus(one.left, amount);
      due = minus(due, amount);
    }
  }
  return applied;
}

function lesser(a: Exact, b: Exact): Exact {
  return minus(a, b).digits < 0n ? a : b;
}

function leftOf(state: MetronomeState, { id, amount }: Balance): Exact {
  const used = state.invoices
    .filter(({ status }) => status === 'FINALIZED')
    .flatMap(({ applied }) => applied)
    .filter(({ balance }) => balance.id === id);
  return used.reduce((rest, one) => minus(rest, one.amount), amount);
}

/**
 * Returns a commit's payment as the list of invoices shows it: with a day as its period, and
 * without usage.
 */
export function showPurchases(contract: Contract, credit_type: unknown, at: number) {
  return contract.balances.flatMap(({ id, paidAt, amount }) => {
    if (paidAt === undefined) return [];
    const total = number(amount);
    const day = new Date(paidAt).toISOString();
    return {
      id: `purchase of ${id}`,
      type: 'SCHEDULED',
      status: paidAt <= at ? 'FINALIZED' : 'DRAFT',
      customer_id: contract.customer_id,
      contract_id: contract.id,
      start_timestamp: day,
      end_timestamp: day,
      ...(paidAt <= at && { issued_at: day }),
      credit_type,
      subtotal: total,
      total,
      line_items: [
        {
          type: 'commit_purchase',
          name: 'Prepaid commit',
          product_type: 'FixedProductListItem',
          commit_id: id,
          quantity: 1,
          unit_price: total,
          total,
          credit_type,
        },
      ],
    };
  });
}

/**
 * Returns the invoice line of a drawn amount: beside the line of the usage, with the same product
 * and quantity and a negative total.
 */
export function showApplied({ balance, line, amount }: Applied, credit_type: unknown) {
  return {
    type: 'applied_commit_or_credit',
    name: `${line.name} (${balance.type === 'CREDIT' ? 'credit' : 'prepaid commit'} applied)`,
    product_id: line.product_id,
    product_type: 'UsageProductListItem',
    pricing_group_values: line.values,
    quantity: number(line.quantity),
    unit_price: number(line.price),
    total: -number(amount),
    commit_id: balance.id,
    applied_commit_or_credit: { id: balance.id, type: balance.type },
    credit_type,
  };
}

function number(value: Exact): number {
  return Number(textOf(value));
}
