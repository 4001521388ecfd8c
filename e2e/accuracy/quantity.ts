/** GiB of a size such as `200Gi` or `2Ti`. */
export function parseQuantity(size: string): number {
  const match = /^(\d+)([GT])i$/.exec(size);
  if (match === null) throw new RangeError(`accuracy: no size in Gi or Ti: "${size}"`);
  return Number(match[1]) * (match[2] === 'T' ? 1024 : 1);
}
