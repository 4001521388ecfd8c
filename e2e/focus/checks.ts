/** A row by column; null is the empty text. */
export type Row = Readonly<Record<string, string>>;

/** Reads RFC 4180 with a header. Throws for rows of another length than the header. */
export function readCsv(text: string): readonly Row[] {
  const records: string[][] = [[]];
  for (const [, quoted, plain = '', end] of text.matchAll(
    /(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n|$)/g,
  )) {
    records.at(-1)?.push(quoted?.replaceAll('""', '"') ?? plain);
    if (end === '\r\n') records.push([]);
    if (end === '') break;
  }
  const [head = [], ...rows] = records.filter((cells) => cells.length > 1);
  return rows.map((cells, index) => {
    if (cells.length === head.length) {
      return Object.fromEntries(head.map((name, at) => [name, cells[at] ?? '']));
    }
    throw new Error(`row ${index + 1}: ${cells.length} cells of ${head.length}`);
  });
}

const NUMBER = /^-?(0|[1-9]\d*)\.(\d*[1-9]|0)$/;
const INSTANT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/;
const PLACES = 21;
const COSTS = ['BilledCost', 'EffectiveCost', 'ListCost', 'ContractedCost'];
const FIGURES = [
  ...COSTS,
  'ListUnitPrice',
  'ContractedUnitPrice',
  'ConsumedQuantity',
  'PricingQuantity',
];
const TIMES = ['ChargePeriodStart', 'ChargePeriodEnd', 'BillingPeriodStart', 'BillingPeriodEnd'];
const NEVER_NULL = [
  ...COSTS,
  ...TIMES,
  'BillingAccountId',
  'BillingAccountName',
  'BillingCurrency',
  'ChargeCategory',
  'ChargeDescription',
  'InvoiceIssuerName',
  'ProviderName',
  'PublisherName',
  'ServiceCategory',
  'ServiceName',
  'ServiceSubcategory',
  'x_RowId',
];
const OF_USAGE = [
  'ConsumedQuantity',
  'ConsumedUnit',
  'ContractedUnitPrice',
  'ListUnitPrice',
  'PricingCategory',
  'PricingQuantity',
  'PricingUnit',
  'SkuId',
  'SkuMeter',
  'SkuPriceId',
];
/** Columns that are null together. */
const TOGETHER = [
  ['SubAccountId', 'SubAccountName', 'SubAccountType'],
  ['RegionId', 'RegionName'],
  ['ResourceId', 'ResourceType'],
];
/** A value of the first column always has the same value of the second. */
const ONE_FOR_EACH = [
  ['ServiceName', 'ServiceCategory'],
  ['ServiceName', 'ServiceSubcategory'],
  ['SkuPriceId', 'SkuId'],
  ['SkuPriceId', 'SkuPriceDetails'],
  ['SkuId', 'SkuMeter'],
  ['SkuId', 'PricingUnit'],
];

/** What the public validator does not see: one line for each fault of a file. */
export function faultsOf(rows: readonly Row[]): readonly string[] {
  const faults = rows.flatMap((row, index) => rowFaults(row).map((fault) => `${index}: ${fault}`));
  const ids = new Set(rows.map((row) => row['x_RowId']));
  if (ids.size < rows.length) faults.push('x_RowId: not unique');
  for (const [of = '', one = ''] of ONE_FOR_EACH) {
    const values = new Map<string, string>();
    for (const row of rows) {
      const [key, value] = [row[of] ?? '', row[one] ?? ''];
      if (key !== '' && (values.get(key) ?? value) !== value)
        faults.push(`${of}: two ${one}: ${key}`);
      values.set(key, value);
    }
  }
  return faults;
}

function rowFaults(row: Row): readonly string[] {
  const value = (name: string): string => row[name] ?? '';
  const isUsage = value('ChargeCategory') === 'Usage';
  const faults: string[] = [];
  const check = (ok: boolean, fault: string): void => void (ok || faults.push(fault));
  for (const name of NEVER_NULL) check(value(name) !== '', `${name}: null`);
  for (const name of OF_USAGE) check((value(name) !== '') === isUsage, `${name}: null or not`);
  for (const name of FIGURES)
    check(value(name) === '' || NUMBER.test(value(name)), `${name}: number`);
  for (const name of TIMES) check(INSTANT.test(value(name)), `${name}: time`);
  check(value('ChargePeriodStart') < value('ChargePeriodEnd'), 'ChargePeriod: empty');
  check(value('ChargePeriodStart') >= value('BillingPeriodStart'), 'ChargePeriod: too early');
  check(value('ChargePeriodEnd') <= value('BillingPeriodEnd'), 'ChargePeriod: too late');
  for (const names of TOGETHER) {
    check(new Set(names.map((name) => value(name) === '')).size === 1, `${names.join()}: nulls`);
  }
  check(
    value('ResourceName') === '' || value('ResourceName') !== value('ResourceId'),
    'ResourceName',
  );
  for (const name of ['Tags', 'SkuPriceDetails']) {
    check(value(name) === '' || isFlat(value(name)), `${name}: not a flat object`);
  }
  if (isUsage && faults.length === 0) faults.push(...productFaults(row));
  return faults;
}

function productFaults(row: Row): readonly string[] {
  const [quantity, ...prices] = ['PricingQuantity', 'ContractedUnitPrice', 'ListUnitPrice'].map(
    (name) => exact(row[name] ?? ''),
  );
  return COSTS.filter((name) =>
    prices.some((price) => price * (quantity ?? 0n) !== exact(row[name] ?? '') * 10n ** 21n),
  ).map((name) => `${name}: not price × quantity`);
}

function isFlat(text: string): boolean {
  const value: unknown = JSON.parse(text);
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
  return isObject && Object.values(value).every((inner) => typeof inner !== 'object');
}

/** A decimal text in units of 10⁻²¹. */
export function exact(text: string): bigint {
  const [complete = '', fraction = ''] = text.split('.');
  return BigInt(complete + fraction.padEnd(PLACES, '0'));
}
