import type { FocusVersion } from '../../settings/settings.ts';

/** The type of a column's values in the schema of a file. */
type DataType = 'String' | 'Decimal' | 'Date/Time' | 'JSON';

interface DescribedColumn {
  readonly name: string;
  readonly type: DataType;
  /** The only version that has the column; undefined for all. */
  readonly only?: FocusVersion;
}

/** The columns of all versions in order: those of FOCUS by name, then our own. */
const COLUMNS = [
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
  { name: 'CommitmentProgramEligibilityDetails', type: 'JSON', only: '1.4' },
  { name: 'ConsumedQuantity', type: 'Decimal' },
  { name: 'ConsumedUnit', type: 'String' },
  { name: 'ContractedCost', type: 'Decimal' },
  { name: 'ContractedUnitPrice', type: 'Decimal' },
  { name: 'EffectiveCost', type: 'Decimal' },
  { name: 'HostProviderName', type: 'String' },
  { name: 'InvoiceDetailId', type: 'String', only: '1.4' },
  { name: 'InvoiceId', type: 'String' },
  { name: 'InvoiceIssuerName', type: 'String' },
  { name: 'ListCost', type: 'Decimal' },
  { name: 'ListUnitPrice', type: 'Decimal' },
  { name: 'PricingCategory', type: 'String' },
  { name: 'PricingQuantity', type: 'Decimal' },
  { name: 'PricingUnit', type: 'String' },
  { name: 'ProviderName', type: 'String', only: '1.2' },
  { name: 'PublisherName', type: 'String', only: '1.2' },
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
] as const satisfies readonly DescribedColumn[];

type ColumnName = (typeof COLUMNS)[number]['name'];

/** A column of a file. */
export interface FocusColumn extends DescribedColumn {
  readonly name: ColumnName;
}

/** One row by column. An absent value is null. */
export type FocusRow = Readonly<Partial<Record<ColumnName, string>>>;

/** The columns of a file in order, by version (docs/reference/focus.md#columns). */
export const FOCUS_COLUMNS: Readonly<Record<FocusVersion, readonly FocusColumn[]>> = {
  '1.2': columnsOf('1.2'),
  '1.4': columnsOf('1.4'),
};

function columnsOf(version: FocusVersion): readonly FocusColumn[] {
  const all: readonly FocusColumn[] = COLUMNS;
  return all.filter(({ only = version }) => only === version);
}
