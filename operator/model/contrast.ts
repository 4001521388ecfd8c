/** The contrast of two colours `#rrggbb`, from 1 to 21 (WCAG 2.2, "contrast ratio"). */
export function contrast(a: string, b: string): number {
  const both = [luminance(a), luminance(b)];
  return (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05);
}

/** WCAG 2.2, "relative luminance". */
function luminance(colour: string): number {
  const [red, green, blue] = [1, 3, 5].map((at) => channel(parseInt(colour.slice(at, at + 2), 16)));
  return 0.2126 * (red ?? 0) + 0.7152 * (green ?? 0) + 0.0722 * (blue ?? 0);
}

function channel(byte: number): number {
  const share = byte / 255;
  return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
}
