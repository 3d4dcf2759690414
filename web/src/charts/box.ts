// A box of cells of a chart with columns and rows, both ends included.

export interface Box {
  from: number;
  to: number;
  low: number;
  high: number;
}
