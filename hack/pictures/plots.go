package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
)

// figures are what tests and benchmarks record, by test and name.
type figures map[string]map[string]float64

// picture is a plot: with an axis of lines, otherwise of bars.
type picture struct {
	File, Title, Unit, Axis string
	// Keys replace {} in the names of figures. They are the numbers of the axis. Names are those of
	// bars, if they are others.
	Keys, Names []string
	// Each adds to the legend by how much a line grows with each of the axis.
	Each   bool
	Series []series
}

type series struct {
	Name string
	// Figure is the test and the name of the values in figures.json. Other values are not measured by
	// a test.
	Figure [2]string
	Values []float64
}

// readPlots reads the plots, with the values of figures.json.
func readPlots(folder string) ([]picture, error) {
	var recorded figures
	var plots []picture
	err := errors.Join(read(filepath.Join(folder, "figures.json"), &recorded),
		read(filepath.Join(folder, "plots.json"), &plots))
	for _, p := range plots {
		for i := range p.Series {
			s := &p.Series[i]
			for _, key := range p.Keys {
				of := func(name string) string { return strings.ReplaceAll(name, "{}", key) }
				if value, ok := recorded[of(s.Figure[0])][of(s.Figure[1])]; ok {
					s.Values = append(s.Values, value)
				}
			}
			if len(s.Values) != len(p.Keys) {
				err = errors.Join(err, fmt.Errorf("%s: %s needs %d figures, and has %d", p.File, s.Name,
					len(p.Keys), len(s.Values)))
			}
		}
	}
	return plots, err
}

func read(file string, into any) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

func (p picture) save(file string) error {
	const width, height = 13 * vg.Centimeter, 8 * vg.Centimeter
	drawn := plot.New()
	drawn.Title.Text, drawn.X.Label.Text, drawn.Y.Label.Text = p.Title, p.Axis, p.Unit
	drawn.X.Min, drawn.Y.Min = 0, 0
	drawn.Legend.Top = true
	drawn.Legend.Left = p.Axis != ""
	drawn.Add(plotter.NewGrid())
	add := p.line
	if p.Axis == "" {
		add = p.bars
		names := p.Names
		if names == nil {
			names = p.Keys
		}
		drawn.NominalX(names...)
		drawn.X.Tick.Label.Font.Size = vg.Points(8)
		drawn.X.Min, drawn.X.Max = -0.5, float64(len(names))-0.5
	}
	top := 0.0
	for i, s := range p.Series {
		if err := add(drawn, i, s); err != nil {
			return err
		}
		for _, value := range s.Values {
			top = max(top, value)
		}
	}
	drawn.Y.Max = top * (1.1 + 0.08*float64(len(p.Series))) // space for the legend
	if p.Axis != "" {
		drawn.X.Max *= 1.05 // space for the last number
	}
	return drawn.Save(width, height, file)
}

func (p picture) line(to *plot.Plot, i int, s series) error {
	points := make(plotter.XYs, len(p.Keys))
	for j, key := range p.Keys {
		x, err := strconv.ParseFloat(key, 64)
		if err != nil {
			return err
		}
		points[j] = plotter.XY{X: x, Y: s.Values[j]}
	}
	line, dots, err := plotter.NewLinePoints(points)
	if err != nil {
		return err
	}
	line.Color, dots.Color, dots.Shape = plotutil.Color(i), plotutil.Color(i), plotutil.Shape(i)
	to.Add(line, dots)
	name := s.Name
	if p.Each {
		name += fmt.Sprintf(": %.3g for each", slope(points))
	}
	to.Legend.Add(name, line, dots)
	return nil
}

// slope is that of the line with the least squares through the points.
func slope(points plotter.XYs) float64 {
	var n, x, y, xx, xy float64
	for _, p := range points {
		n, x, y, xx, xy = n+1, x+p.X, y+p.Y, xx+p.X*p.X, xy+p.X*p.Y
	}
	return (n*xy - x*y) / (n*xx - x*x)
}

func (p picture) bars(to *plot.Plot, i int, s series) error {
	const room = 270 // points for all bars
	wide := vg.Points(room / float64(len(p.Keys)*(len(p.Series)+1)))
	bars, err := plotter.NewBarChart(plotter.Values(s.Values), wide)
	if err != nil {
		return err
	}
	bars.Color, bars.LineStyle.Width = plotutil.Color(i), 0
	bars.Offset = wide * vg.Length(2*i-len(p.Series)+1) / 2
	to.Add(bars)
	to.Legend.Add(s.Name, bars)
	return nil
}
