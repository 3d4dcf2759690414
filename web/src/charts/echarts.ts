// The parts of ECharts that the page uses, in a file of their own, which is loaded with the first chart that needs them.

import { BarChart, HeatmapChart, PieChart } from 'echarts/charts';
import { GridComponent, VisualMapContinuousComponent } from 'echarts/components';
import { init, use } from 'echarts/core';
import { CanvasRenderer } from 'echarts/renderers';

use([BarChart, HeatmapChart, PieChart, GridComponent, VisualMapContinuousComponent, CanvasRenderer]);

export { init };
