import { hash } from 'node:crypto';
import { sortedEntries } from '../../model/bytewise.ts';
import type { MetricDefinition } from '../../model/catalog.ts';
import { DECIMAL_PLACES, nanosFromDecimal } from '../../model/decimal.ts';
import { PERIOD_MS, type PeriodKind } from '../../model/periods.ts';
import { COST_PLACES } from '../../model/pricing/charges.ts';
import type { FoundPrice } from '../../model/pricing/find-price.ts';
import { formatInstant, type TimeRange } from '../../model/window.ts';
import type { FocusVersion } from '../../settings/settings.ts';
import type { SummedUsage } from '../usage/late-usage.ts';
import type { UsageItem } from '../usage/usage-sums.ts';
import type { FocusRow } from './columns.ts';
import type { ChargedUsage, LineRounding } from './month-charges.ts';
import { usageKey } from './period-usage.ts';
import { type FocusService, focusUnit } from './services.ts';

/** The names in a file that events do not have. */
export interface FocusNames {
  readonly provider: string;
  readonly publisher: string;
  readonly invoiceIssuer: string;
  readonly hostProvider: string;
  readonly service: (metric: string) => FocusService;
  readonly metric: (code: string) => Pick<MetricDefinition, 'name' | 'source'> | undefined;
  /** Undefined for a tenant or tenant cluster that is gone. */
  readonly tenant: (id: string) => string | undefined;
  readonly cluster: (id: string) => string | undefined;
}

/** The calendar month of a file, with the length of its charge periods and its columns. */
export interface BillingMonth extends TimeRange {
  readonly grain: PeriodKind;
  readonly focusVersion: FocusVersion;
}

const PRICE_PLACES = COST_PLACES - DECIMAL_PLACES;
const ROW_ID_DIGITS = 32;
const GPU_HOURS = 'gpu-hours';
const STORAGE = 'tenant_storage_gb_hours';

/**
 * The row of a charge. Its costs are the unrounded product of its price and its quantity.
 * `correctedIn` is the month that bills it where its own month is closed, such as `2026-11`.
 */
export function usageRow(
  charged: ChargedUsage,
  month: BillingMonth,
  names: FocusNames,
  correctedIn?: string,
): FocusRow {
  const { item, events, prices, price, tier, nanos, picos } = charged;
  const { metric, sku, unit, dimensions = {}, source } = item;
  const start = Date.parse(item.window_start);
  const cost = numberText(nanos * picos, COST_PLACES);
  const unitPrice = numberText(picos, PRICE_PLACES);
  const quantity = numberText(nanos, DECIMAL_PLACES);
  const skuId = sku === undefined ? metric : `${metric}:${sku}`;
  const meter = names.metric(metric)?.name ?? metric;
  const what = `${source === 'correction' ? 'Correction of ' : ''}${meter}`;
  return {
    ...commonCells(item, month, names),
    ...resourceCells(item, names),
    AvailabilityZone: dimensions['zone'],
    BilledCost: cost,
    BillingCurrency: prices.currency,
    ChargeCategory: 'Usage',
    ChargeClass: correctedIn && 'Correction',
    ChargeDescription: [what, sku, `price ${price.name}`].filter(Boolean).join(', '),
    ChargeFrequency: 'Usage-Based',
    ChargePeriodEnd: formatInstant(start + PERIOD_MS[month.grain]),
    ChargePeriodStart: formatInstant(start),
    ConsumedQuantity: quantity,
    ConsumedUnit: focusUnit(unit),
    ContractedCost: cost,
    ContractedUnitPrice: unitPrice,
    EffectiveCost: cost,
    ListCost: cost,
    ListUnitPrice: unitPrice,
    PricingCategory: 'Standard',
    PricingQuantity: quantity,
    PricingUnit: focusUnit(unit),
    RegionId: item.region,
    RegionName: item.region,
    SkuId: skuId,
    SkuMeter: meter,
    SkuPriceDetails: priceDetails(charged),
    SkuPriceId: `${prices.plan}/${price.name}/${skuId}${tier === 1 ? '' : `#${tier}`}`,
    SubAccountId: item.project,
    SubAccountName: item.project,
    SubAccountType: item.project === undefined ? undefined : 'Project',
    Tags: tagsOf(item),
    x_Events: `${events}.0`,
    x_Price: price.name,
    x_PriceBook: prices.plan,
    x_RowId: rowId(`${usageKey(item)}#${tier}`, correctedIn),
    x_Source: source,
    x_Tier: `${tier}.0`,
  };
}

/** The price of what is never charged. */
const FREE: FoundPrice = {
  name: 'free',
  from: '',
  match: {},
  charge: { kind: 'flat', includedNanos: 0n, picos: 0n },
};

/** The row of usage that costs nothing: its price is 0. See {@link usageRow}. */
export function unchargedRow(
  usage: SummedUsage & Pick<ChargedUsage, 'prices'>,
  month: BillingMonth,
  names: FocusNames,
  correctedIn?: string,
): FocusRow {
  const nanos = nanosFromDecimal(usage.item.quantity);
  const free = { ...usage, price: FREE, tier: 1, nanos, picos: 0n };
  return {
    ...usageRow(free, month, names, correctedIn),
    PricingQuantity: numberText(0n, DECIMAL_PLACES),
  };
}

/** The month that bills a rounding, and the month of its charges. See {@link usageRow}. */
interface RoundingPeriods {
  readonly month: BillingMonth;
  readonly period: TimeRange;
  readonly correctedIn?: string;
}

/** The row that brings the charges of an invoice line to the amount of the invoice. */
export function roundingRow(
  { line, item, prices, price, cost }: LineRounding,
  { month, period, correctedIn }: RoundingPeriods,
  names: FocusNames,
): FocusRow {
  const amount = numberText(cost, COST_PLACES);
  return {
    ...commonCells(item, month, names),
    BilledCost: amount,
    BillingCurrency: prices.currency,
    ChargeCategory: 'Adjustment',
    ChargeClass: correctedIn && 'Correction',
    ChargeDescription: `Rounding of the month's invoice line ${price.name} of plan ${prices.plan}`,
    ChargeFrequency: 'One-Time',
    ChargePeriodEnd: formatInstant(period.to),
    ChargePeriodStart: formatInstant(period.from),
    ContractedCost: amount,
    EffectiveCost: amount,
    ListCost: amount,
    x_Price: price.name,
    x_PriceBook: prices.plan,
    x_RowId: rowId(`rounding ${line}`, correctedIn),
  };
}

function commonCells(item: UsageItem, month: TimeRange, names: FocusNames): FocusRow {
  const service = names.service(item.metric);
  return {
    BillingAccountId: item.tenant,
    BillingAccountName: names.tenant(item.tenant) ?? item.tenant,
    BillingAccountType: 'Customer',
    BillingPeriodEnd: formatInstant(month.to),
    BillingPeriodStart: formatInstant(month.from),
    HostProviderName: names.hostProvider,
    InvoiceIssuerName: names.invoiceIssuer,
    ProviderName: names.provider,
    PublisherName: names.publisher,
    ServiceCategory: service.category,
    ServiceName: service.name,
    ServiceProviderName: names.provider,
    ServiceSubcategory: service.subcategory,
    x_Metric: item.metric,
  };
}

/**
 * The resource of some usage: its tenant cluster, or with the id of another resource that one. Such
 * an id is unique only behind its tenant cluster.
 */
function resourceCells({ tenant, metric, resource_id: id, ...item }: UsageItem, names: FocusNames) {
  const cluster = item.dimensions?.['tenant_cluster'];
  if (id === undefined || id === cluster) {
    if (cluster === undefined) return {};
    const name = names.cluster(cluster);
    return {
      ResourceId: cluster,
      ResourceName: name === cluster ? undefined : name,
      ResourceType: 'Tenant cluster',
    };
  }
  const isMeasured = names.metric(metric)?.source === 'collector';
  return {
    ResourceId: `${cluster ?? tenant}/${id}`,
    ResourceName: id,
    ResourceType: isMeasured ? 'Node' : 'Resource',
  };
}

/** What a price depends on, for one unit. It is the same in all rows of a SkuPriceId. */
function priceDetails({ item: { metric, unit, sku }, price }: ChargedUsage): string | undefined {
  const details: Record<string, string | number> = {};
  if (unit === GPU_HOURS) details['GpuCount'] = 1;
  if (metric === STORAGE && sku !== undefined) details['StorageClass'] = sku;
  for (const [key, value] of sortedEntries(price.match)) {
    if (key !== 'sku') details[key === 'instance_type' ? 'InstanceType' : customKey(key)] = value;
  }
  return Object.keys(details).length === 0 ? undefined : JSON.stringify(details);
}

/** `capacity_type` is `x_CapacityType`. */
function customKey(key: string): string {
  const words = key.split('_').map((word) => word.slice(0, 1).toUpperCase() + word.slice(1));
  return `x_${words.join('')}`;
}

/** Columns have the zone and the tenant cluster. */
const COLUMN_DIMENSIONS = new Set(['zone', 'tenant_cluster']);

function tagsOf({ dimensions = {} }: UsageItem): string | undefined {
  const tags = sortedEntries(dimensions)
    .filter(([key]) => !COLUMN_DIMENSIONS.has(key))
    .map(([key, value]) => [`meterfeed/${key}`, value]);
  return tags.length === 0 ? undefined : JSON.stringify(Object.fromEntries(tags));
}

/** A stable id, the same in every file that has the row. */
function rowId(text: string, correctedIn = ''): string {
  return hash('sha256', text + correctedIn, 'hex').slice(0, ROW_ID_DIGITS);
}

/**
 * Exact decimal text of units of 10^-places. Whole numbers keep `.0`, by which readers recognise
 * decimals.
 */
export function numberText(units: bigint, places: number): string {
  const digits = (units < 0n ? -units : units).toString().padStart(places + 1, '0');
  const fraction = digits.slice(-places).replace(/0+$/, '');
  const size = `${digits.slice(0, -places)}.${fraction === '' ? '0' : fraction}`;
  return units < 0n ? `-${size}` : size;
}
