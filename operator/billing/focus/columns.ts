/** The type of a column's values in the schema of a file. */
type DataType = 'String' | 'Decimal' | 'Date/Time' | 'JSON';

/**
 * The columns of a file in order: those of FOCUS 1.2 and 1.3 by name, then our own
 * (docs/reference/focus.md#columns).
 */
export const FOCUS_COLUMNS = [
  { name: 'AvailabilityZone', type: 'String' },
  { name: 'BilledCost', type: 'Decimal' },
  { name: 'BillingAccountId', type: 'String' },
  { name: 'BillingAccountName', type: 'String' },
  { name: 'BillingAccountType', type: 'String' },
  { name: 'BillingCurrency', type: 'String' },
  { name: 'BillingPeriodEnd', type: 'Date/Time' },
  { name: 'BillingPeriodStart', type: 'Date/Time' },
  { name: 'ChargeCategory', type: 'String' },
  { name: 'ChargeClass', type: 'String' },
  { name: 'ChargeDescription', type: 'String' },
  { name: 'ChargeFrequency', type: 'String' },
  { name: 'ChargePeriodEnd', type: 'Date/Time' },
  { name: 'ChargePeriodStart', type: 'Date/Time' },
  { name: 'CommitmentDiscountStatus', type: 'String' },
  { name: 'ConsumedQuantity', type: 'Decimal' },
  { name: 'ConsumedUnit', type: 'String' },
  { name: 'ContractedCost', type: 'Decimal' },
  { name: 'ContractedUnitPrice', type: 'Decimal' },
  { name: 'EffectiveCost', type: 'Decimal' },
  { name: 'HostProviderName', type: 'String' },
  { name: 'InvoiceId', type: 'String' },
  { name: 'InvoiceIssuerName', type: 'String' },
  { name: 'ListCost', type: 'Decimal' },
  { name: 'ListUnitPrice', type: 'Decimal' },
  { name: 'PricingCategory', type: 'String' },
  { name: 'PricingQuantity', type: 'Decimal' },
  { name: 'PricingUnit', type: 'String' },
  { name: 'ProviderName', type: 'String' },
  { name: 'PublisherName', type: 'String' },
  { name: 'RegionId', type: 'String' },
  { name: 'RegionName', type: 'String' },
  { name: 'ResourceId', type: 'String' },
  { name: 'ResourceName', type: 'String' },
  { name: 'ResourceType', type: 'String' },
  { name: 'ServiceCategory', type: 'String' },
  { name: 'ServiceName', type: 'String' },
  { name: 'ServiceProviderName', type: 'String' },
  { name: 'ServiceSubcategory', type: 'String' },
  { name: 'SkuId', type: 'String' },
  { name: 'SkuMeter', type: 'String' },
  { name: 'SkuPriceDetails', type: 'JSON' },
  { name: 'SkuPriceId', type: 'String' },
  { name: 'SubAccountId', type: 'String' },
  { name: 'SubAccountName', type: 'String' },
  { name: 'SubAccountType', type: 'String' },
  { name: 'Tags', type: 'JSON' },
  { name: 'x_Events', type: 'Decimal' },
  { name: 'x_Metric', type: 'String' },
  { name: 'x_Price', type: 'String' },
  { name: 'x_PriceBook', type: 'String' },
  { name: 'x_RowId', type: 'String' },
  { name: 'x_Source', type: 'String' },
  { name: 'x_Tier', type: 'Decimal' },
] as const satisfies readonly { readonly name: string; readonly type: DataType }[];

type Column = (typeof FOCUS_COLUMNS)[number]['name'];

/** One row by column. An absent value is null. */
export type FocusRow = Readonly<Partial<Record<Column, string>>>;

/** The names of the columns, and of those with numbers. */
export const COLUMN_NAMES: readonly string[] = FOCUS_COLUMNS.map(({ name }) => name);
export const FIGURES: readonly string[] = FOCUS_COLUMNS.filter(
  ({ type }) => type === 'Decimal',
).map(({ name }) => name);

/** The cells of a row in the order of the columns; null is the empty text. */
export function cellsOf(row: FocusRow): readonly string[] {
  return FOCUS_COLUMNS.map(({ name }) => row[name] ?? '');
}
