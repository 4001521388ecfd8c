import { html } from './preact.js';
import { Card } from './components.js';
import { number, quantity, time, unitText } from './format.js';
import { useNames } from './names.js';

const STATES = {
  active: 'within the budget',
  warning: 'used up, or about to be',
  suspended: 'used up: nothing new starts until the next period, or until the provider grants more',
};
const PREPAID_USED_UP = 'used up: nothing new starts until more is paid in';
const PERIODS = {
  month: 'the calendar month (UTC)',
  rolling: 'the last days (UTC)',
  prepaid: 'what was paid in advance',
};

/** `1,728.00 EUR`, or `12.500 GPU hours`. @param {any} budget @param {string} amount */
export function amountText({ counts, unit }, amount) {
  const places = amount.split('.')[1]?.length ?? 0;
  if (counts !== 'money') return quantity(Number(amount));
  const format = new Intl.NumberFormat('en', {
    minimumFractionDigits: places,
    maximumFractionDigits: places,
  });
  return `${number(format, Number(amount))} ${unit}`;
}

/** @param {any} budget @returns {'good' | 'warn' | 'bad'} */
export function toneOf({ state, left }) {
  if (state === 'suspended' || Number(left) <= 0) return 'bad';
  return state === 'warning' ? 'warn' : 'good';
}

/** A budget: its amount, what is used, and when it ends. @param {{ budget: any }} properties */
export function BudgetCard({ budget }) {
  const names = useNames();
  const { amount, used, left, unit, counts, period, state, uncounted } = budget;
  const share = Number(amount) > 0 ? Math.min(1, Math.max(0, Number(used) / Number(amount))) : 1;
  const ofMetric = counts === 'metric';
  const isPrepaid = period === 'prepaid';
  const what = ofMetric ? `${names.metric(unit)}: ` : '';
  const code = names.metrics.find((metric) => metric.code === unit);
  const facts = [
    ['Used', amountText(budget, used)],
    ['Left', amountText(budget, left)],
    [
      isPrepaid ? 'Paid in' : 'Budget',
      `${amountText(budget, amount)}${ofMetric ? ` ${unitText(code?.unit ?? '')}` : ''}`,
    ],
    ['Period', PERIODS[/** @type {keyof typeof PERIODS} */ (period)]],
    ['Since', budget.period_start && time(budget.period_start)],
    ['Until', budget.period_end && time(budget.period_end)],
    ['Used up at this rate', budget.used_up_at && time(budget.used_up_at)],
    [
      'State',
      isPrepaid && state === 'suspended'
        ? PREPAID_USED_UP
        : STATES[/** @type {keyof typeof STATES} */ (state)],
    ],
    [
      'Not counted, because it has no price',
      uncounted.map((/** @type {string} */ metric) => names.metric(metric)).join(', '),
    ],
  ].filter(([, value]) => Boolean(value));
  return html`
    <${Card} title="Budget">
      <div class=${`budget ${toneOf(budget)}`}>
        <p>${what}${amountText(budget, used)} of ${amountText(budget, amount)} used</p>
        <div class="track" aria-hidden="true"><span class="fill" style=${{ width: `${100 * share}%` }}></span></div>
        <dl class="facts">${facts.map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>
      </div>
    </${Card}>
  `;
}
