import type { Decimal } from '../../model/decimal.ts';
import type { UsageEvent } from '../../model/event.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { StripeMeter } from './meters.ts';

/** A meter event. Version 1 of the API takes its time as a number of seconds, version 2 as text. */
export interface MeterEvent<Time extends number | string> {
  readonly event_name: string;
  /** Unique for 24 hours. */
  readonly identifier: string;
  readonly timestamp: Time;
  readonly payload: Readonly<Record<string, string>>;
}

export function meterEventOf<Time extends number | string>(
  { id, quantity }: UsageEvent,
  { eventName, customerKey, valueKey }: StripeMeter,
  customer: string,
  timestamp: Time,
): MeterEvent<Time> {
  const payload = { [customerKey]: customer, [valueKey]: meterValue(quantity) };
  return { event_name: eventName, identifier: id, timestamp, payload };
}

/** Logs that the sent value differs from the quantity in its last digits. */
export function reportRounding(name: string, { id, quantity }: UsageEvent, logger: Logger): void {
  if (meterValue(quantity) === quantity) return;
  logger.warn(
    `[${name}] event ${id}: rounded to the 15 digits that Stripe takes: quantity: "${quantity}"`,
  );
}

/** Stripe refuses values with more significant digits. */
const MAX_DIGITS = 15;

/** Returns plain decimal text of at most 15 significant digits, rounded half to even. */
export function meterValue(quantity: Decimal): string {
  if (quantity.startsWith('-')) return `-${meterValue(quantity.slice(1) as Decimal)}`;
  const [integral = '0', fraction = ''] = quantity.split('.');
  const digits = (integral + fraction).replace(/^0+/, '');
  const surplus = digits.length - MAX_DIGITS;
  if (surplus <= 0) return quantity;
  const divisor = 10n ** BigInt(surplus);
  const rounded = divideHalfEven(BigInt(digits), divisor);
  const places = fraction.length - surplus;
  if (places <= 0) return String(rounded * 10n ** BigInt(-places));
  const text = String(rounded).padStart(places + 1, '0');
  const decimals = text.slice(-places).replace(/0+$/, '');
  const integer = text.slice(0, -places);
  return decimals === '' ? integer : `${integer}.${decimals}`;
}

function divideHalfEven(numerator: bigint, denominator: bigint): bigint {
  const quotient = numerator / denominator;
  const twice = (numerator % denominator) * 2n;
  if (twice < denominator) return quotient;
  if (twice > denominator) return quotient + 1n;
  return quotient % 2n === 0n ? quotient : quotient + 1n;
}
